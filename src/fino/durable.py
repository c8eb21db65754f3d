"""Files that are either whole or not there, whenever the power goes.

Write under a temporary name, flush to the disk, rename, flush the folder: a reader sees the old
file or the new one, never half of one.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "flush",
    "hold_alone",
    "plain",
    "read_bytes",
    "replace",
    "whole_file",
    "write_json",
    "write_whole",
]


def flush(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(source: Path, target: Path) -> None:
    """Give a finished file its final name."""
    flush(source)
    source.replace(target)
    # Some file systems cannot flush a folder; the rename itself is still atomic there.
    with suppress(OSError):
        flush(target.parent)


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A temporary name to write to; it becomes `target` if nothing goes wrong."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(target: Path, content: bytes) -> None:
    """Write a small file, all of it or nothing."""
    with whole_file(target) as temporary:
        temporary.write_bytes(content)


def read_bytes(path: Path) -> bytes:
    """What a file holds, or one line about why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None


def write_json(target: Path, content: Any) -> None:
    """The same for what JSON can say, and for paths as text."""
    write_whole(target, (json.dumps(content, indent=1, default=str) + "\n").encode())


def plain(value: Any) -> Any:
    """The same content in the types that JSON knows; numbers that are not finite become None."""
    if dataclasses.is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {_key(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # of numpy or torch
        value = value.tolist()
    if isinstance(value, complex):
        value = [value.real, value.imag]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _key(key: Any) -> str:
    return ",".join(map(_key, key)) if isinstance(key, tuple) else str(key)


@contextmanager
def hold_alone(folder: Path, message: str) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if need be; `message` is their error."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(message) from None
        yield
    finally:
        os.close(handle)
