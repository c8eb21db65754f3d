"""Keep the memory of the last step for the next one.

A network's step allocates and frees the same few megabytes again and again.  The C library
gives such blocks back to the system at once and then pays for fresh pages: here that was up to
a third of a forward pass.  `keep_freed_memory` asks it to keep them.  It changes the process,
so the long-running verbs call it, and importing fino never does.
"""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

# From glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> bool:
    """Serve blocks up to 32 MiB from memory that is kept; False where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wishes = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 1 << 30), (_TOP_PAD, 64 << 20))
    return all(mallopt(name, value) == 1 for name, value in wishes)
