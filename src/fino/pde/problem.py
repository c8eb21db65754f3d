"""What every problem promises: parameters, initial conditions, a solver, and facts about them.

    problem = Advection(beta=2.0, points=256)
    u = problem.solve()                                              # one sample, (1, t, c, *space)
    u = problem.solve(initial=problem.draw(problem.grid, 0, range(8)))               # eight of them

A problem is its settings: the fields of its class are the parameters of the equation, the grid
and the initial conditions, and its methods read them from `self`.  The solver takes any grid, so
the same code makes the reference data and, on the data's own coarse grid, the classical baseline.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from fino.grid import Grid
from fino.settings import Settings

__all__ = [
    "MOST_STEPS",
    "Array",
    "Duration",
    "Frames",
    "Initial",
    "Points",
    "Problem",
    "Progress",
    "check_boundary",
    "cores",
    "diffused",
    "on_all_cores",
    "on_one_core",
    "steps_between",
]

Array = np.ndarray

#: Called with the share of the work that is done, between 0 and 1.
Progress = Callable[[float], None]

#: More steps than this between two saved frames is a mistake in the settings.
MOST_STEPS = 10_000_000

# Settings that several problems have.
_points = "Cells along each axis; fewer are faster and coarser."
_frames = "Saved frames, evenly spaced in time, the initial one among them."
_duration = "Time of the last saved frame."
_initial = "'ours' draws any number of samples; 'pdebench' repeats those of the released file."
Points = Annotated[int, Field(ge=4, le=2**20, description=_points)]
Frames = Annotated[int, Field(ge=2, description=_frames)]
Duration = Annotated[float, Field(gt=0, allow_inf_nan=False, description=_duration)]
Initial = Annotated[Literal["ours", "pdebench"], Field(description=_initial)]


class Problem(Settings):
    """A PDE with its parameters, its initial conditions, its solver and what is known about them.

    To add one, derive a class, say what it is (`name` … `coefficients`), declare its settings with
    a docstring below each, and write `grid`, `draw`, `integrate` and `solver`; then
    `PROBLEMS["mine"] = Mine`.  What has a body here suits most problems.  Concrete problems are
    final, except for a variant that adds settings or saves other fields.

    The state is everything that the solver needs to go on, `fields` are the channels that are
    saved: shallow water steps (h, hu, hv) and saves h.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: ClassVar[str]
    title: ClassVar[str]
    equation: ClassVar[str]
    #: The class's own docstring on one line, for the card.
    description: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]]
    units: ClassVar[tuple[str, ...]]
    #: What the fields of the first frame are called, if they are not the same.
    inputs: ClassVar[tuple[str, ...]] = ()
    #: Those of the equation; "shift" holds where the grid is periodic.
    symmetries: ClassVar[tuple[str, ...]] = ()
    #: The axis of each field that is a component of a vector, None for a scalar.
    directions: ClassVar[tuple[int | None, ...]] = ()
    #: Fields that drive the equation and are known in advance: their names.
    forces: ClassVar[tuple[str, ...]] = ()
    #: The axis along which a parameter or a force points, by name: a mirror changes its sign.
    turning: ClassVar[dict[str, int]] = {}
    #: Settings that stand in the equation, such as a gravity or a diffusion: from the same start,
    #: on the same cells, another value gives another course.  What a model learned with one value
    #: does not hold for another.
    coefficients: ClassVar[tuple[str, ...]] = ()
    #: Frames that are shown before a model is scored, and how many samples are for validation and
    #: how many for the test, in data that are large enough; None: what the data's rules say.
    shown: ClassVar[int | None] = None
    held_out: ClassVar[int | None] = None
    #: Settings with which the method is efficient on coarse cells: as the classical solver that a
    #: model is compared with, on any number of cells, the best of them counts.
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    #: Settings that solve the equation exactly, where there are any.
    exact: ClassVar[dict[str, Any] | None] = None
    #: Whether there are two frames, input and output, instead of a time.
    steady: ClassVar[bool] = False
    #: The most samples that `integrate` is given at once.
    together: ClassVar[int] = 1

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """List the settings in the docstring, so that `help` shows them."""
        super().__pydantic_init_subclass__(**kwargs)
        words = cls.__doc__ or ""
        if "description" not in vars(cls):
            cls.description = " ".join(words.split()) or cls.description
        known = cls.model_fields.items()
        rows = [f"    {key} = {setting.default!r}: {setting.description}" for key, setting in known]
        cls.__doc__ = "\n".join([words.rstrip(), "", "Settings:", *rows])

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The grid that the reference data live on."""

    @property
    def times(self) -> Array:
        """The saved times, the first of them the initial one."""
        return np.linspace(0.0, self.duration, self.frames)  # type: ignore[attr-defined]

    @abstractmethod
    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Initial states (b, s, *space) in float64, each a pure function of (seed, sample)."""

    def draw_parameters(self, seed: int, samples: Sequence[int]) -> dict[str, Array]:
        """Settings that differ from trajectory to trajectory: name → a value for each sample.

        Each is a pure function of (seed, sample).  It is for parameters that must be drawn
        together; others are varied by `generate(…, vary=…)`.
        """
        return {}

    def draw_forcing(self, grid: Grid, times: Array, seed: int, samples: Sequence[int]) -> Array:
        """What drives the equation at the given times: (b, t, forces, *space), as `draw`."""
        return np.empty((len(samples), len(times), 0, *grid.points))

    def solve(
        self,
        grid: Grid | None = None,
        initial: Array | None = None,
        times: Array | None = None,
        progress: Progress | None = None,
        forcing: Array | None = None,
    ) -> Array:
        """Solutions at the given times, saved fields only: (b, s, *space) → (b, t, c, *space).

        What is left out is the problem's own: its grid, its times, and sample 0 of seed 0, with
        the parameters and the forcing of that sample.  `forcing` is (b, t, forces, *space).
        """
        grid = self.grid if grid is None else grid
        when = np.array(self.times if times is None else times, np.float64)
        if not (np.isfinite(when).all() and (np.diff(when) > 0).all()):
            raise ValueError("saved times should grow from frame to frame.")
        if initial is None:
            own = {name: float(values[0]) for name, values in self.draw_parameters(0, [0]).items()}
            problem = self.changed(**own) if own else self
            forcing = self.draw_forcing(grid, when, 0, [0]) if forcing is None else forcing
            return problem.solve(grid, problem.draw(grid, 0, [0]), when, progress, forcing)
        start = np.array(initial, np.float64, order="C")
        if start.shape[2:] != grid.points:
            raise ValueError(
                f"initial should be (b, s, *space) on a grid of {grid.points}, got {start.shape}."
            )
        drive = self._check_forcing(
            forcing, (len(start), len(when), len(self.forces), *grid.points)
        )
        frames = np.empty((len(start), len(when), len(self.fields), *grid.points))
        size = max(1, min(self.together, -(-len(start) // cores())))

        def solve_rows(first: int) -> None:
            rows = slice(first, first + size)
            try:
                given = () if drive is None else (drive[rows],)
                frames[rows] = self.integrate(grid, start[rows], when, *given)
            except FloatingPointError as error:
                where = f"{self.name} broke down in row {first} of the batch"
                raise ValueError(f"{where}: {error}") from None

        on_all_cores(solve_rows, range(0, len(start), size), progress)
        return frames

    def _check_forcing(self, forcing: Array | None, wanted: tuple[int, ...]) -> Array | None:
        if not self.forces:
            return None
        if forcing is None or np.shape(forcing) != wanted:
            got = "none" if forcing is None else np.shape(forcing)
            raise ValueError(
                f"{self.name} needs forcing (b, t, {len(self.forces)}, *space) = {wanted}, as "
                f"draw_forcing gives it, got {got}."
            )
        return np.array(forcing, np.float64, order="C")

    @abstractmethod
    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        """Solve up to `together` samples: (b, s, *space) → (b, t, c, *space), first frame too.

        `solve` calls it from several threads, with copies that may be overwritten.  A problem with
        `forces` takes them as a fourth argument, (b, t, forces, *space) at the same times.  It
        raises FloatingPointError with advice if the solution breaks down.
        """

    def state(self, grid: Grid, frame: Array) -> Array | None:
        """The state to go on from a saved frame (b, c, *space), or None if it cannot be known."""
        return frame

    @property
    def whole(self) -> Problem:
        """The same problem, saving all that its solver needs to go on."""
        return self

    def grid_of(self, points: Sequence[int]) -> Grid:
        """The same domain on so many cells, with its walls where they are."""
        return self.grid.refined(points)

    @property
    def refinement(self) -> int:
        """How many times finer along each axis than they are stored good data are solved."""
        return 1

    @property
    def kept_symmetries(self) -> tuple[str, ...]:
        """Those of `symmetries` that hold with these settings."""
        periodic = all(self.grid.is_periodic)
        return tuple(s for s in self.symmetries if s != "shift" or periodic)

    @property
    def speed(self) -> float | None:
        """The fastest wave in length per time; None where there is none, or it is not known."""
        return None

    def reach(self, time: float, frames: Array) -> float:
        """How far the state is felt after a time: a length, inf where it is not known.

        `frames` (t, c, *space) are saved ones on the way, for waves whose speed they say.
        """
        return math.inf if self.speed is None else self.speed * time

    @property
    @abstractmethod
    def solver(self) -> str:
        """The method in a few words, for the card."""

    @property
    def flaws(self) -> tuple[str, ...]:
        """What a user of the data should know."""
        return ()


def diffused(diffusion: float, time: float) -> float:
    """How far diffusion is felt: where erfc(r / 2√(Dt)) has fallen below a thousandth."""
    return 5 * math.sqrt(diffusion * time)


def check_boundary(grid: Grid, boundary: str, need: str) -> None:
    """Refuse a plane with other edges; `need` begins the sentence."""
    if grid.boundary != (boundary, boundary):
        raise ValueError(f"{need}, boundary '{boundary}' on both axes, got {grid.boundary}.")


def steps_between(interval: float, largest: float) -> int:
    """The fewest steps of at most `largest` that fill an interval."""
    steps = interval / largest if largest > 0 else math.inf
    if not steps <= MOST_STEPS:
        raise ValueError(
            f"a step of {largest:.1e} takes over {MOST_STEPS:,} steps to the next frame: "
            "choose slower waves, fewer points or frames that are closer together."
        )
    # A quotient a rounding error above a whole number is that number.
    return max(1, math.ceil(steps * (1 - 1e-12)))


#: How many samples may be solved side by side, where a measurement asks for fewer.
_most_cores: ContextVar[int] = ContextVar("most_cores", default=1024)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Solve one sample after another, in the thread that asks, so that its time can be measured."""
    before = _most_cores.set(1)
    try:
        yield
    finally:
        _most_cores.reset(before)


def cores() -> int:
    """How many samples to solve side by side; OMP_NUM_THREADS lowers it."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    most = min(_most_cores.get(), int(asked) if asked.isdigit() else 1024)
    return max(1, min(available or 1, most))


def on_all_cores(
    work: Callable[[int], None], starts: Sequence[int], progress: Progress | None = None
) -> None:
    """Call work(i) for every start i.  Kernels release the interpreter's lock, so threads do."""
    if cores() == 1:
        for done, i in enumerate(starts, 1):
            work(i)
            if progress is not None:
                progress(done / len(starts))
        return
    with ThreadPoolExecutor(min(cores(), max(1, len(starts)))) as pool:
        running = [pool.submit(work, i) for i in starts]
        try:
            for done, future in enumerate(as_completed(running), 1):
                future.result()
                if progress is not None:
                    progress(done / len(starts))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
