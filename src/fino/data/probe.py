"""A file of unknown origin is opened first in a process that may crash.

The HDF5 library can crash or hang on damaged files; a process of its own takes the blow, so that
the user gets one line instead.  It does what opening does, reads some numbers, and answers:

    request   {"path": …, "options": …}
    answer    {"error": null | "one line"}

The process starts with the first such file, serves later ones, and leaves when idle.
"""

from __future__ import annotations

import atexit
import json
import select
import subprocess
import sys
from pathlib import Path
from threading import Lock
from typing import Any

__all__ = ["one_line", "probe", "serve"]

#: Seconds that opening may take, and bytes for which one more is granted.
_PATIENCE = 20.0
_BYTES_A_SECOND = 2**25

#: Seconds without work after which the process leaves.
_IDLE = 5.0

#: Bytes of numbers that are read for a trial.
_TRIAL = 2**26

_lock = Lock()
_process: subprocess.Popen[str] | None = None


def probe(paths: list[Path], options: dict[str, Any]) -> None:
    """Open some files elsewhere first; a crash, a hang or a refusal becomes one ValueError."""
    size = sum(path.stat().st_size for path in paths)
    request = json.dumps([[str(path.resolve()) for path in paths], options])
    with _lock:
        answer = _ask(request, _PATIENCE + size / _BYTES_A_SECOND)
    if answer is None:
        raise ValueError("it is damaged: reading it crashed or did not end.")
    if answer:
        raise ValueError(answer)


def _ask(request: str, patience: float) -> str | None:
    """The process's answer; None if it died or was too slow; "" if all is well."""
    global _process
    for _ in range(2):  # an idle process may leave just as it is asked
        if _process is not None and _process.poll() is not None:
            _stop()
        process = _process = _process or _start()
        if process is None:
            return ""
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            _stop()
            continue
        ready, _, _ = select.select([process.stdout], [], [], patience)
        line = process.stdout.readline() if ready else ""
        if line:
            return str(json.loads(line))
        left = process.poll() == 0
        _stop()
        if not left:
            return None
    return None


def _start() -> subprocess.Popen[str] | None:
    """A new process, or None where none may be started: then the file is opened untried."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from fino.data.probe import serve; serve()"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return None


def _stop() -> None:
    global _process
    if _process is not None:
        _process.kill()
        with _process:  # closes its pipes and waits for it
            _process = None


atexit.register(_stop)


def serve() -> None:
    """Answer requests until there are none for a while."""
    while select.select([sys.stdin], [], [], _IDLE)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        paths, options = json.loads(line)
        print(json.dumps(_trial([Path(path) for path in paths], options)), flush=True)


def _trial(paths: list[Path], options: dict[str, Any]) -> str:
    """Open, read the first and last samples and as many between as the trial allows."""
    from fino.data.open import read_foreign

    try:
        source = read_foreign(paths, options).source
        samples, *rest = source.shape
        size = 4
        for n in rest:
            size *= n
        if size > 2**33:
            return f"one of its trajectories is {size / 1e9:.0f} GB: too large to be one."
        count = max(2, min(samples, _TRIAL // size))
        stretch = (slice(None),) * (len(rest) - 2)
        for i in sorted({round(k * (samples - 1) / (count - 1)) for k in range(count)}):
            source.read([i], slice(None), stretch)
    except Exception as error:  # whatever it was, the caller gets one line
        return one_line(error)
    return ""


def one_line(error: Exception) -> str:
    """What went wrong, in one line: our own words as they are, a library's as its opinion."""
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ValueError):
        return words
    if isinstance(error, TypeError) and "unexpected keyword argument" in words:
        return f"it takes no option '{words.rsplit(chr(39), 2)[-2]}'."
    return f"it is damaged or cut short ({words[:200]})."
