"""`fino rollout`: predict as far as you like, on fields as large as you like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fino.cli.console import progress, say, say_json
from fino.cli.data import FileOptions, options_of
from fino.grid import Grid

if TYPE_CHECKING:
    from fino.data.card import Card

__all__ = ["rollout"]

#: Instead of a share of the cost of the solver.
_MIRROR = "mirror"


def rollout(
    run: Path,
    *,
    steps: int | None = None,
    history: str | None = None,
    data: Path | None = None,
    options: FileOptions | None = None,
    sample: int = 0,
    tile: int | None = None,
    region: str | None = None,
    every: int = 1,
    out: Path | None = None,
    movie: Path | None = None,
    interval: float | None = None,
    strict: bool = False,
    check: str | None = None,
    mesh: str | None = None,
    device: str = "cpu",
    engine: str | None = None,
    why: bool = False,
    json: bool = False,
) -> None:
    """Roll a model out: `fino rollout runs/swe --steps 500 --tile 512 --movie out.gif`.

    A pretrained model goes by its name, `fino rollout shallow-water --movie swe.gif`, and starts
    from a test sample that is solved again.

    On many processes: `torchrun --nproc-per-node 4 -m fino rollout … --out out.npy`.  Tiles,
    regions and processes do not change the numbers.

    Args:
        run: A run folder, a model folder, or the name of a pretrained model.
        steps: How many frames to predict; as many as the data have after the start, if not given.
        history: A .npy or .h5 file (t, c, *space) to start from; a domain of any size.
        data: A data file to take the start from; the run's own if not given.
        options: What that file does not say; as in the file of the training, if not given.
        sample: Which test sample of the data to start from.
        tile: Cells along each axis that are computed at a time, to bound the memory.
        region: Predict only these cells, as start:stop for each axis, such as 40:60,0:32.
        every: Keep every n-th frame.
        out: A .npy or .h5 file for the frames.
        movie: A GIF of all fields, beside the truth where the start is from the data.
        interval: A share such as 0.9: also write the band that holds so many cells of trajectories
            like the validation ones, as OUT-lower and OUT-upper.
        strict: Refuse what is unlike the training data instead of warning of it.
        check: A share such as 0.05: solve the first steps or some places with the equation's own
            solver for so much of the cost of a full solution, and say how far off the rollout is.
            Where there is no solver, frames that are known already are held out.  Or `mirror`:
            estimate the error of every step by the mirror image of the start, for a second rollout.
        mesh: Processes along each axis, such as 2x2; chosen if not given.
        device: `cpu`, or `cuda` for one device a process.
        engine: `torch`, or `c` for compiled code; the faster one for long rollouts, if not given.
        why: Say why the work was cut as it was.
        json: Print what was done as JSON.
    """
    from fino.evaluation.estimate import require_mirror
    from fino.inference.process_group import rank_and_size
    from fino.inference.ranks import rollout_launched
    from fino.machine import keep_freed_memory
    from fino.trust.guards import Diverged

    if movie is not None and movie.suffix != ".gif":
        raise ValueError(f"a movie of a rollout should end in .gif, got '{movie.name}'.")
    keep_freed_memory()
    found, source, start, length = _run_and_start(run, history, data, options, sample)
    model = found.model.to(_device(device))
    steps = length if steps is None else steps
    if steps is None:
        raise ValueError("--history does not say how far to go: add --steps.")
    rank, ranks = rank_and_size()
    if ranks > 1 and (region is not None or (movie is not None and out is None)):
        raise ValueError(
            "With several processes, --region is not possible and --movie needs --out."
        )
    if interval is not None and out is None:
        raise ValueError("--interval writes lower and upper fields beside --out: add --out.")
    if check is not None and (every > 1 or region is not None or (ranks > 1 and out is None)):
        raise ValueError(
            "--check compares every frame of the whole domain: leave --every and --region out, "
            "and with several processes add --out."
        )
    share = None if check is None else _check_share(check)
    if share == _MIRROR:
        require_mirror(found)
    if ranks == 1 and mesh is not None:
        raise ValueError("--mesh is for several processes: start them with torchrun.")
    cut: dict[str, Any] = {"tile": tile, "region": _region(region), "mesh": _mesh(mesh)}
    plan = _plan(model, start, ranks, steps, **cut)
    quiet = json or rank > 0
    for number, line in enumerate([] if quiet else plan if why else plan[:2]):
        say(f"  {line}" if number else line)
    try:
        with progress("rolling out", quiet=quiet) as show:
            ways: Any = {"every": every, "interval": interval, "strict": strict, "engine": engine}
            done: Any = rollout_launched(model, start, steps, out=out, progress=show, **ways, **cut)
    except Diverged as stop:
        if rank == 0:
            _write_movie(stop.frames, movie, model, start, cut["region"], every)
        raise
    if done is None:
        return
    frames = done.frames if interval is None else done.frames.frames
    size = tuple(frames.shape)
    card = None if source is None else source.card
    _write_movie(frames, movie, model, start, cut["region"], every, card)
    halo = {"halo_share": done.halo_share} if done.block else {}
    checked = None
    if share is not None:
        checked = _check(found, source, start, sample, frames, share)
    if json:
        facts = {"shape": size, "seconds": done.seconds, **halo, "plan": plan[1:]}
        facts |= {} if checked is None else {"check": vars(checked)}
        say_json({**facts, "out": out, "movie": movie})
        return
    waiting = f", {done.halo_share:.1%} of it waiting for halos" if halo else ""
    shape = " × ".join(map(str, size))
    say(f"{shape} (time × channel × space) in {done.seconds:.1f} s{waiting}.")
    ends = () if out is None or interval is None else ("-lower", "-upper")
    bands = [out.with_name(f"{out.stem}{end}{out.suffix}") for end in ends if out is not None]
    for path in (out, *bands, movie):
        if path is not None:
            say(f"  {path}: {path.stat().st_size / 1e6:.1f} MB")
    if checked is not None:
        say(str(checked))


def _check_share(words: str) -> float | str:
    """'0.05' → 0.05, 'mirror' as it is."""
    if words == _MIRROR:
        return words
    try:
        return float(words)
    except ValueError:
        raise ValueError(
            f"--check should be a share of the cost such as 0.05, or '{_MIRROR}', got '{words}'."
        ) from None


def _check(
    found: Any, source: Any, start: Any, sample: int, frames: Any, share: float | str
) -> Any:
    """How far off the rollout is, by its mirror image, the equation's solver or known frames."""
    from fino.evaluation.estimate import estimate_error
    from fino.evaluation.spot import hold_out, spot_check
    from fino.inference.store import as_array

    history = as_array(start) if source is None else None
    if isinstance(share, str):
        return estimate_error(found, start if history is None else history, frames)
    if history is not None:
        return hold_out(found, history, share)
    return spot_check(found, sample, frames, share=share, part=source.test)


def _write_movie(
    frames: Any,
    movie: Path | None,
    model: Any,
    start: Any,
    region: Any,
    every: int,
    card: Card | None = None,
) -> None:
    """The frames, or those of the first of a batch, as a GIF; none of a rollout without frames.

    A start from the data has a truth, which is shown beside them.
    """
    from fino.data.dataset import Sample
    from fino.report.movie import write_rollout_movie

    dims = model.grid.dims
    if movie is None or frames is None or not frames.shape[-dims - 2]:
        return
    frames = frames if frames.ndim == dims + 2 else frames[0]
    truth: Any = start.future[every - 1 :: every] if isinstance(start, Sample) else None
    grid = model.grid.with_points(frames.shape[2:])
    mask = start.given.mask[0] if truth is not None and start.given.mask is not None else None
    if region is not None:
        places = zip(grid.extent, region, grid.spacing, strict=True)
        extent = tuple((low + a * size, low + b * size) for (low, _), (a, b), size in places)
        grid = Grid(grid.points, extent, grid.boundary)
        crosses = any(a < 0 or b > n for (a, b), n in zip(region, model.grid.points, strict=True))
        cut = None if truth is None or crosses else tuple(slice(*ends) for ends in region)
        truth = None if cut is None else truth[(..., *cut)]
        mask = None if cut is None or mask is None else mask[(..., *cut)]
    times = [model.settings.dt * every * (frame + 1) for frame in range(len(frames))]
    fields = model.settings.fields
    names: dict[str, Any] = {}
    if card is not None:
        names = {"axes": card.axes, "units": card.units, "time_unit": card.time_unit}
    write_rollout_movie(frames, movie, grid, times, fields, truth, mask=mask, **names)


def _plan(
    model: Any, start: Any, ranks: int, steps: int, tile: int | None, region: Any, mesh: Any
) -> list[str]:
    """What will be done, how the work is cut, and why, a sentence each."""
    from fino.inference.boxes import shape, times
    from fino.inference.local import local_step
    from fino.inference.ranks import decompose
    from fino.inference.rollout import light_cone
    from fino.inference.store import open_store
    from fino.inference.tiles import BATCH_CELLS, LARGER_WINDOW, choose_plan

    samples, _, channels, *points = open_store(start, model.grid)[0].shape
    said = [f"{steps} steps of {channels} field{'s' * (channels != 1)} on {times(points)} cells."]
    more = f"{LARGER_WINDOW - 1:.1%} larger than one step does"
    rule = f"a halo: as many as make what is read at most {more}."
    if ranks > 1:
        cut = decompose(local_step(model, points), ranks, steps, mesh=mesh)
        size = times(cut.mesh.shape)
        said.append(f"{ranks} processes as {size}: the least halo for the largest block.")
        said.append(f"{_count(cut.steps_per_halo, 'step')} {rule}")
        return said
    if region is not None:
        share = f"{light_cone(model, region, steps, points).share:.1%} of the cells of a full run"
        said.append(f"Only the region's light cone is computed: {share}.")
    if tile is not None:
        step = local_step(model, points)
        plan = choose_plan(step, tile, steps, samples)
        halo = step.locality.halo(plan.steps_per_halo)
        tiles = step.domain.cut(step.domain.whole, plan.tile, halo)
        size = times([max(n) for n in zip(*map(shape, tiles), strict=True)])
        number, batch = _count(len(tiles), "tile"), _count(plan.batch, "tile")
        said.append(f"{number} of up to {size} cells with a halo of {times(halo)}.")
        said.append(f"{_count(plan.steps_per_halo, 'step')} {rule}")
        said.append(f"{batch} at once: as many as stay within {BATCH_CELLS} cells.")
    return said


def _count(number: int, thing: str) -> str:
    """1 tile, 2 tiles."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _run_and_start(
    run: Path, history: str | None, data: Path | None, options: FileOptions | None, sample: int
) -> tuple[Any, Any, Any, int | None]:
    """The run, its data, what it starts from, and how many frames the data have after that."""
    from fino.data.dataset import Sample
    from fino.training.run import find_run

    found = find_run(run)
    if history is not None:
        return found, None, history, None
    if data is None and not found.has_data:
        raise ValueError(
            f"{run} is a model, not a run: say where to start with --history or --data."
        )
    other = data if data is None else found.with_data(data, **options_of(options)).data
    source = other or found.test_data(sample + 1)
    given, future = source.test.begin([sample], found.model.history)
    start = Sample(given, future[0], sample, source.card)
    return found, source, start, future.shape[1]


def _device(name: str) -> str:
    """This process's own device: cuda → cuda:3."""
    import os

    import torch

    if name == "cpu":
        return name
    if name != "cuda" or not torch.cuda.is_available():
        raise ValueError(f"--device should be cpu, or cuda where there is one, got '{name}'.")
    own = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    torch.cuda.set_device(own)
    return own


def _region(words: str | None) -> tuple[tuple[int, int], ...] | None:
    """'40:60,0:32' → ((40, 60), (0, 32))."""
    if words is None:
        return None
    try:
        pairs = [part.split(":") for part in words.split(",")]
        return tuple((int(start), int(stop)) for start, stop in pairs)
    except ValueError:
        raise ValueError(
            f"--region should be start:stop for each axis, such as 40:60,0:32, got '{words}'."
        ) from None


def _mesh(words: str | None) -> tuple[int, ...] | None:
    """'2x2' → (2, 2)."""
    if words is None:
        return None
    try:
        return tuple(int(count) for count in words.split("x"))
    except ValueError:
        raise ValueError(f"--mesh should be counts such as 2x2, got '{words}'.") from None
