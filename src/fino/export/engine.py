"""The C code of a model as the engine of its rollouts: compiled once, kept, checked against torch.

    fino.rollout(run, history, steps, engine="c")

A compiled step is a step like any other: it takes what the model takes, sees as far and runs in
the same windows, so tiles, regions and ranks are those of the model.  Its library lies in the
user's cache under a hash of the source, the compiler and its flags.  Whenever one is loaded, a
step on random numbers has to agree with torch.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from fino.export.check import TOLERANCE, random_start, worst_difference
from fino.export.library import (
    cache_folder,
    compile_library,
    find_compiler,
    library_path,
    load_library,
)
from fino.export.program import Program, describe
from fino.given import Given
from fino.model.emulator import Emulator
from fino.settings import did_you_mean
from fino.shapes import Field

__all__ = ["CompiledStep", "choose_engine", "compile_step"]

#: How steps can be computed.
ENGINES = ("torch", "c")

#: The engine is chosen by measuring from so many steps on; below, torch is as good.
_FEWEST_STEPS = 8
#: Multiply–adds of a rollout from which on a model is compiled without being asked: some twenty
#: seconds of torch on one core, several times what compiling takes.
_WORTH_COMPILING = 4e11
#: Cells up to which the measurement takes the size of the rollout itself.
_TIMED_CELLS = 2**14


class CompiledStep:
    """A step of a model in C: given → next frame (b, c, *space), in float32 on the CPU.

    It has the model's history, grid, settings and locality, and keeps no gradient.
    """

    takes_given: ClassVar[bool] = True

    def __init__(self, model: Emulator, program: Program, library: ctypes.CDLL) -> None:
        self.model, self.program = model, program
        self.history, self.channels = model.history, model.channels
        self.grid, self.settings, self.locality = model.grid, model.settings, model.locality
        self.check_space = model.check_space
        self._workspace_bytes = library.fino_workspace
        self._workspace_bytes.restype = ctypes.c_size_t
        self._step = library.fino_step_batch
        self._own = threading.local()

    def __call__(self, given: Given | Tensor) -> Field:
        given = Given.of(given)
        self.model.check(given.history)
        if given.positions is None:
            self.model.conditioning.check(given)
            self.check_space(given.space)
        given = given.last(self.history)
        if not self._workspace_bytes(*given.space):
            raise ValueError(
                f"grid {given.space} does not fit: this model runs on {self.program.rule}."
            )
        given = _in_memory(given)
        batch = len(given.history)
        out = torch.empty(batch, self.channels, *given.space)
        workers = min(batch, torch.get_num_threads())
        if workers < 2:
            self._run(given, out)
            return out
        # Each thread takes some of the batch; the C code has no state of its own.
        rows = [slice(i * batch // workers, (i + 1) * batch // workers) for i in range(workers)]
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda some: self._run(given.rows(some), out[some]), rows))
        return out

    def _run(self, given: Given, out: Tensor) -> None:
        names = ("signals", "known", "forcing", "mask", "positions")
        beside = _Beside(*(_address(getattr(given, name)) for name in names))
        workspace = self._workspace(given.space)
        wrong = self._step(
            *(_address(given.history), _address(out), len(out), *given.space),
            *(_address(given.parameters), ctypes.byref(beside), _address(workspace)),
        )
        assert not wrong, f"fino_step_batch returned {wrong}"

    def _workspace(self, space: tuple[int, ...]) -> Tensor:
        """This thread's memory to work in, kept from step to step."""
        needed = self._workspace_bytes(*space)
        kept: Tensor | None = getattr(self._own, "workspace", None)
        if kept is None or len(kept) < needed:
            kept = self._own.workspace = torch.empty(needed, dtype=torch.uint8)
        return kept


class _Beside(ctypes.Structure):
    """`fino_beside` of the header."""

    _fields_: ClassVar = [
        (name, ctypes.c_void_p) for name in ("signals", "known", "forcing", "mask", "positions")
    ]


def _address(tensor: Tensor | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def _in_memory(given: Given) -> Given:
    """As C reads it: float32, contiguous, and both ends of the step of what runs in time."""
    found: dict[str, Any] = {"history": given.history, **given.beside}
    for name in ("signals", "forcing"):
        if name in found:
            found[name] = found[name][:, :2]
    return Given(**{k: u.to("cpu", torch.float32).contiguous() for k, u in found.items()})


def choose_engine(
    model: Any, engine: str | None, batch: int, space: Sequence[int], steps: int
) -> Any:
    """The model, or its compiled step where that was asked for or is faster.

    None takes the compiled step if one step of each shows that it is faster here, and if its
    library is there already or so much is to be computed that compiling it is worth while.
    """
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"Unknown engine '{engine}'. {did_you_mean(engine, list(ENGINES))}")
    if engine == "c":
        return compile_step(model)
    compiler = find_compiler()
    if engine == "torch" or compiler is None or steps < _FEWEST_STEPS or not _is_plain(model):
        return model
    try:
        program, path = _find_program(model, compiler)
    except ValueError:
        return model
    space = tuple(space)
    work = program.multiply_adds * prod(space) * batch * steps
    if not program.fits(space) or not (path.exists() or work > _WORTH_COMPILING):
        return model
    try:
        compiled = compile_step(model)
    except ValueError as reason:
        warnings.warn(f"{reason} This rollout goes on with torch.", stacklevel=4)
        return model
    return compiled if _is_faster(compiled, model, path, batch, space) else model


def _is_plain(model: Any) -> bool:
    """Whether it is a trained model that C computes alike: float32 on the CPU."""
    if not isinstance(model, Emulator) or model.members > 1:
        return False
    weight = next(model.network.parameters())
    return weight.dtype == torch.float32 and weight.device.type == "cpu"


#: Whether a library was faster, by path, batch, domain and torch's threads.
_measured: dict[tuple[object, ...], bool] = {}


def _is_faster(
    compiled: CompiledStep, model: Emulator, path: Path, batch: int, space: tuple[int, ...]
) -> bool:
    """Measured once a process, on the domain itself or a part of it."""
    program = compiled.program
    if prod(space) > _TIMED_CELLS and not program.fixed:
        side, stride = round(_TIMED_CELLS ** (1 / len(space))), program.locality.stride
        space = tuple(min(n, -(-side // s) * s) for n, s in zip(space, stride, strict=True))
    batch = min(batch, 4)
    key = (path, batch, space, torch.get_num_threads())
    if key not in _measured:
        start = random_start(program, batch, space)
        both = [(_seconds(compiled, start), _seconds(model, start)) for _ in range(3)][1:]
        _measured[key] = min(c for c, _ in both) < min(t for _, t in both)
    return _measured[key]


def _seconds(step: Callable[[Given], Field], start: Given) -> float:
    with torch.no_grad():
        begin = time.perf_counter()
        step(start)
        return time.perf_counter() - begin


def compile_step(model: Any) -> CompiledStep:
    """The compiled step of a model, from the cache or compiled now; it agrees with torch."""
    if isinstance(model, CompiledStep):
        return model
    compiler = find_compiler()
    if compiler is None:
        raise ValueError(
            "No C compiler was found: neither $CC, cc, gcc nor clang. "
            "Install one, or use engine='torch'."
        )
    program, path = _find_program(model, compiler)
    weight = next(model.network.parameters())
    if weight.dtype != torch.float32:
        raise ValueError(
            f"The C engine computes in float32, and this model is {weight.dtype}. "
            f"Use engine='torch', or model.float()."
        )
    if not path.exists():
        compile_library(program, compiler, path)
    step = CompiledStep(model, program, load_library(path))
    if path not in _checked:
        _check(step, path)
        _checked.add(path)
    return step


#: The last programs and where their libraries lie, by all numbers of the model.
_found: dict[bytes, tuple[Program, Path]] = {}
_MOST_FOUND = 16


def _find_program(model: Any, compiler: tuple[str, ...]) -> tuple[Program, Path]:
    """The program of a model and the place of its library; rollouts one after another ask often."""
    if not isinstance(model, Emulator):
        describe(model)  # says what is wrong
    numbers = hashlib.sha256(repr((model.settings, model.grid, compiler)).encode())
    numbers.update(repr((type(model.network), model.network.settings, cache_folder())).encode())
    for name, value in model.state_dict().items():
        numbers.update(name.encode() + value.detach().cpu().contiguous().numpy().tobytes())
    key = numbers.digest()
    if key not in _found:
        program = describe(model)
        while len(_found) >= _MOST_FOUND:
            del _found[next(iter(_found))]
        _found[key] = program, library_path(program, compiler)
    return _found[key]


#: Libraries that agreed with torch in this process.
_checked: set[Path] = set()


def _check(step: CompiledStep, path: Path) -> None:
    """Refuse a library that does not compute what torch computes."""
    error = worst_difference(step, step.model, random_start(step.program))
    if not error <= TOLERANCE:
        raise ValueError(
            f"The compiled step differs from torch by {error:.1e}, more than {TOLERANCE:.0e}. "
            f"Delete {path} to compile it again, or use engine='torch'."
        )
