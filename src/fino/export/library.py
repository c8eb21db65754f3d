"""Compiled C code in the user's cache: found by what it was made from, or compiled now.

A library's name is a hash of the program, of the code that generates C from it, of the compiler
with all that it defines by itself (its version, this machine's instructions) and of the flags.
It appears in the cache whole or not at all.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fino.durable import whole_file
from fino.export.c import c_header, c_source
from fino.export.program import Program

__all__ = ["cache_folder", "compile_library", "find_compiler", "library_path", "load_library"]

_FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")


@cache
def load_library(path: Path) -> ctypes.CDLL:
    """A library, once a process."""
    return ctypes.CDLL(str(path))


def find_compiler() -> tuple[str, ...] | None:
    """The command of a C compiler: $CC, else cc, gcc or clang; None without one."""
    named = os.environ.get("CC")
    for command in [shlex.split(named)] if named else [["cc"], ["gcc"], ["clang"]]:
        if command and shutil.which(command[0]):
            return tuple(command)
    return None


@cache
def _generator() -> bytes:
    """The code that makes C of a program."""
    names = ("source/step.c.j2", "source/step.h.j2", "c.py")
    return b"".join((files("fino.export") / name).read_bytes() for name in names)


@cache
def _describe_compiler(compiler: tuple[str, ...]) -> bytes:
    """All that a compiler defines by itself: its version, and the instructions of this machine."""
    command = [*compiler, *_FLAGS[:2], "-dM", "-E", "-x", "c", os.devnull]
    found = subprocess.run(command, capture_output=True, check=False)
    return found.stdout or " ".join(compiler).encode()


def library_path(program: Program, compiler: tuple[str, ...]) -> Path:
    """Where a program's library lies: in the cache, named by all that it is made from."""
    digest = hashlib.sha256(_generator())
    digest.update(_describe_compiler(compiler))
    digest.update(" ".join([*compiler, *_FLAGS]).encode())
    _add(digest, program)
    return cache_folder() / f"{program.name}-{digest.hexdigest()[:32]}.so"


def _add(digest: Any, value: Any) -> None:
    """Add all that a value holds: dataclasses field by field, arrays byte by byte."""
    if isinstance(value, np.ndarray):
        digest.update(str(value.shape).encode() + value.tobytes())
    elif is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for field in fields(value):
            _add(digest, getattr(value, field.name))
    elif isinstance(value, tuple):
        digest.update(f"({len(value)})".encode())
        for part in value:
            _add(digest, part)
    else:
        digest.update(repr(value).encode())


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/fino, else ~/.cache/fino."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "fino"


def compile_library(program: Program, compiler: Sequence[str], path: Path) -> None:
    """Compile the C code of a program into a shared library, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory() as folder, whole_file(path) as target:
        source = Path(folder) / "fino.c"
        source.write_text(c_source(program, "fino.h"), encoding="utf-8")
        source.with_suffix(".h").write_text(c_header(program), encoding="utf-8")
        command = [*compiler, *_FLAGS, "-o", str(target), str(source), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next(iter(done.stderr.splitlines()), "no message")
            raise ValueError(
                f"The C compiler failed: {first}. Use another one with CC=…, or engine='torch'."
            )
