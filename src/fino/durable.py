"""Files that are either whole or not there, whenever the power goes, and never anybody else's.

Write under a temporary name, flush to the disk, rename, flush the folder: a reader sees the old
file or the new one, never half of one.  A lock keeps two processes from writing one thing, and
names the other.  Only what was made here is deleted, by its name, and never through a link.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "check_no_link",
    "clear_leftovers",
    "explain",
    "flush",
    "hold_alone",
    "is_alive",
    "named",
    "plain",
    "read_bytes",
    "replace",
    "restore_folder",
    "wait_for_folder",
    "whole_file",
    "write_folder",
    "write_json",
    "write_whole",
]

#: Seconds that a reader waits for a folder that is being replaced.
_PATIENCE = 2.0

_ADVICE = {
    errno.ENOSPC: "Free some space, or write to another disk",
    errno.EDQUOT: "Free some of your quota, or write to another disk",
    errno.EACCES: "Change its permissions, or choose another place",
    errno.EPERM: "Change its permissions, or choose another place",
    errno.EROFS: "Choose a place that can be written to",
    errno.ENOENT: "Check the path",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.EMFILE: "Close other files, or raise the limit with `ulimit -n`",
    errno.EIO: "Check the disk",
}


def explain(error: OSError) -> str:
    """A disk error in one line: which file, what happened, what to do."""
    if error.errno is None or error.strerror is None:
        return str(error)
    advice = _ADVICE.get(error.errno)
    file = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
    return f"{file}{error.strerror}." + (f" {advice}." if advice else "")


@contextmanager
def named(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Give the name of a file to disk errors without one, such as a full disk, or of its other."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def flush(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace(source: Path, target: Path) -> None:
    """Give a finished file its final name."""
    with named(target):
        flush(source)
    source.replace(target)
    # Some file systems cannot flush a folder; the rename itself is still atomic there.
    with suppress(OSError):
        flush(target.parent)


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A temporary name to write to; it becomes `target` if nothing goes wrong.

    A link of that name is replaced by the file; what it led to stays as it is.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with named(target, temporary):
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


def check_no_link(*paths: Path) -> None:
    """Refuse links where files are written or deleted: what they lead to is somebody else's."""
    for path in paths:
        if path.is_symlink():
            raise ValueError(
                f"{path} is a link to {path.readlink()}, and nothing is written through links. "
                "Put the file or folder itself there, or choose another place."
            )


def clear_leftovers(folder: Path, names: str) -> None:
    """Remove what processes that were killed left of files whose names match; nothing else."""
    for path in folder.iterdir():
        found = re.fullmatch(r"\.(.+)\.(\d+)\.tmp", path.name)
        if found and re.fullmatch(names, found[1]) and not is_alive(int(found[2])):
            _remove_file(path)


def _remove_file(path: Path) -> None:
    if path.is_file() and not path.is_symlink():
        path.unlink(missing_ok=True)


def is_alive(process: int) -> bool:
    """Whether there is a process of that number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def write_folder(
    folder: str | Path,
    files: dict[str, bytes],
    *,
    overwrite: bool = False,
    without: Iterable[str] = (),
) -> Path:
    """Write files as a folder that appears at once, after all of it is on the disk.

    Where a folder is replaced, what else stands in it stays there, but for files named `without`.
    """
    names = {*files, *without}
    folder = Path(folder)
    check_no_link(folder)
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists already. Choose another name or pass overwrite=True.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    restore_folder(folder, names)
    fresh, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{end}") for end in ("new", "old"))
    fresh.mkdir()
    try:
        for name, content in files.items():
            with named(folder / name):
                (fresh / name).write_bytes(content)
                flush(fresh / name)
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
    finally:
        restore_folder(folder, names)
    return folder


def restore_folder(folder: Path, names: Iterable[str], *, alone: bool = False) -> bool:
    """Put back a folder that a kill left under another name; False if it is nowhere.

    What else was left of it is cleared, of these files only.  Processes that are alive are not
    disturbed, unless no other can be at work here (`alone`).
    """
    for path, writer in _other_names(folder):
        if not alone and writer != os.getpid() and is_alive(writer):
            continue
        with suppress(FileNotFoundError):  # another reader may do the same
            if path.suffix == ".old" and not folder.exists():
                path.rename(folder)
            else:
                _empty_into(path, folder, set(names))
    return folder.is_dir()


def _other_names(folder: Path) -> list[tuple[Path, int]]:
    """What a folder is called while it is replaced, and the process that does it."""
    pattern = rf"\.{re.escape(folder.name)}\.(\d+)\.(?:new|old)"
    beside = sorted(folder.parent.iterdir()) if folder.parent.is_dir() else []
    found = [(path, re.fullmatch(pattern, path.name)) for path in beside]
    return [(path, int(name[1])) for path, name in found if name and not path.is_symlink()]


def _empty_into(path: Path, folder: Path, names: set[str]) -> None:
    """Remove a folder that was ours; what else stands in it goes into the folder that is kept."""
    for item in path.iterdir():
        if item.name in names:
            _remove_file(item)
        elif folder.is_dir() and not (folder / item.name).exists():
            item.rename(folder / item.name)
    with suppress(OSError):
        path.rmdir()


def wait_for_folder(folder: Path, names: Iterable[str]) -> bool:
    """Whether a folder is there, in a moment if another process is just replacing it."""
    end = time.monotonic() + _PATIENCE
    while not restore_folder(folder, names) and time.monotonic() < end:
        if not _other_names(folder):
            break
        time.sleep(0.01)
    return folder.is_dir()


@contextmanager
def hold_alone(lock: Path, message: str) -> Iterator[None]:
    """Keep other processes out while inside; theirs is the error `message`, which names this one.

    The lock is the kernel's, so one that was killed holds nothing; its file is gone afterwards.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    handle = _take_lock(lock, message)
    try:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        os.pwrite(handle, f"process {os.getpid()} ({command[:200]})\n".encode(), 0)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(handle)


def _take_lock(lock: Path, message: str) -> int:
    import fcntl

    while True:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one before may have removed the file since it was opened: a lock on nothing.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    os.ftruncate(handle, 0)
                    return handle
        except BlockingIOError:
            who = os.pread(handle, 400, 0).decode(errors="replace").strip() or "it has no name yet"
            os.close(handle)
            raise ValueError(f"{message}: {who}. Wait for it, or stop it.") from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
