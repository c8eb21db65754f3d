"""A trained step as files for others: one verb, and a table of the formats that there are.

    export(run, "c", "swe.c")           swe.c and swe.h
    export(run, "onnx", "swe.onnx")     one model for any runtime
    export(run, "page", "swe.html")     a page to play with

C and ONNX are run first and compared with torch, and not written if they differ; a page compares
itself whenever it is opened.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fino.durable import write_whole
from fino.export.c import c_header, c_source
from fino.export.check import TOLERANCE, random_start, worst_difference
from fino.export.engine import CompiledStep
from fino.export.library import compile_library, find_compiler, load_library
from fino.export.onnx import OnnxStep, onnx_model
from fino.export.program import Program, describe
from fino.model.emulator import Emulator
from fino.settings import did_you_mean

__all__ = ["Exported", "export"]


@dataclass(frozen=True)
class Exported:
    """What was written, for which sizes, and how far it is from torch; None if it was not run."""

    files: tuple[Path, ...]
    rule: str
    difference: float | None = None
    notes: tuple[str, ...] = field(default=())


def export(
    run: Any, to: str, out: str | Path | None = None, *, overwrite: bool = False
) -> Exported:
    """Write the step of a run or a model for use outside of Python.

    run         a run, or a model of `fino.build`
    to          one of `TARGETS`
    out         the file to write; the run's name with the format's ending if not given
    overwrite   replace files that exist
    """
    if to not in TARGETS:
        raise ValueError(f"Unknown target '{to}'. {did_you_mean(to, list(TARGETS))}")
    ending, write = TARGETS[to]
    path = Path(out) if out is not None else Path(f"{getattr(run, 'name', 'model')}{ending}")
    if path.suffix != ending:
        raise ValueError(f"a file for {to} should end in {ending}, got '{path.name}'.")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists already. Choose another name or pass overwrite.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(run, path)


def _model_of(run: Any) -> Any:
    return run if isinstance(run, Emulator) else getattr(run, "model", run)


def _write_c(run: Any, path: Path) -> Exported:
    model = _model_of(run)
    program = describe(model)
    header = path.with_suffix(".h")
    difference, notes = _difference_of_c(model, program)
    write_whole(header, c_header(program).encode())
    write_whole(path, c_source(program, header.name).encode())
    return Exported((path, header), program.rule, difference, notes)


def _difference_of_c(model: Emulator, program: Program) -> tuple[float | None, tuple[str, ...]]:
    """How far the compiled code is from torch; None where there is no compiler."""
    compiler = find_compiler()
    if compiler is None:
        return None, ("No C compiler was found, so the code was not compared with torch.",)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        compile_library(program, compiler, library)
        step = CompiledStep(model, program, load_library(library))
        return _refuse_if_different(worst_difference(step, model, random_start(program))), ()


def _write_onnx(run: Any, path: Path) -> Exported:
    model = _model_of(run)
    program = describe(model)
    content = onnx_model(program).SerializeToString()
    step = OnnxStep(program, content)
    difference = _refuse_if_different(worst_difference(step, model, random_start(program)))
    write_whole(path, content)
    return Exported((path,), program.rule, difference)


def _write_page(run: Any, path: Path) -> Exported:
    from fino.export.page import write_page  # figures and templates, which the others do not need

    return Exported((write_page(run, path),), describe(run.model).rule)


def _refuse_if_different(difference: float) -> float:
    if not difference <= TOLERANCE:
        raise ValueError(
            f"The exported step differs from torch by {difference:.1e}, more than "
            f"{TOLERANCE:.0e}, so it was not written. Please report this model."
        )
    return difference


#: Format → the ending of its file, and what writes it.
TARGETS: dict[str, tuple[str, Callable[[Any, Path], Exported]]] = {
    "onnx": (".onnx", _write_onnx),
    "c": (".c", _write_c),
    "page": (".html", _write_page),
}
