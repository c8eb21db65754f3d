"""Files that are either whole or not there, whenever the power goes.

Write under a temporary name, flush to the disk, rename, flush the folder: a reader sees the old
file or the new one, never half of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["flush", "replace", "whole_file", "write_whole"]


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
