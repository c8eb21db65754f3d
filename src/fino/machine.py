"""This machine: its threads and its memory.

`keep_freed_memory` and `threads` change the process, so the long-running verbs call them and
importing fino never does.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "check_device",
    "describe_machine",
    "free_memory",
    "keep_freed_memory",
    "peak_memory",
    "threads",
]

# From glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads inside, and as many as before outside; None changes nothing."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or does not see here."""
    import torch

    try:
        kind = torch.device(name).type
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        known = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        if name.startswith("cuda") and "cuda" not in known:
            raise ValueError(
                f"device '{name}' needs a GPU, and torch sees none here. Use device=cpu."
            ) from None
        raise ValueError(f"device should be {' or '.join(known)}, got '{name}'.") from None
    if kind == "meta":
        raise ValueError("device should be cpu or cuda, got 'meta', which computes nothing.")


def keep_freed_memory() -> bool:
    """Keep the memory of the last step for the next one; False where there is no glibc.

    A network's step allocates and frees the same few megabytes again and again.  The C library
    gives such blocks back to the system at once and then pays for fresh pages: up to a third of a
    forward pass here.  This asks it to serve blocks up to 32 MiB from memory that is kept.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wishes = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 1 << 30), (_TOP_PAD, 64 << 20))
    return all(mallopt(name, value) == 1 for name, value in wishes)


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def free_memory() -> int:
    """The bytes that this process can still take: of the machine, and of what limits are set."""
    free = [2**63]
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")]
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        used = int((group / "memory.current").read_text())
        free.append(int((group / "memory.max").read_text()) - used)
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            free.append(limit - pages * resource.getpagesize())
    return max(0, min(free))


def describe_machine() -> str:
    """The machine in a few words."""
    import torch

    words = platform.processor() or platform.machine()
    return f"{words}, {os.cpu_count()} cores, torch on {torch.get_num_threads()} threads"
