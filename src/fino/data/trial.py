"""A process of its own for what may crash or hang a library: it is asked, and this one lives on.

    ask(code, request, patience)  →  the answer, or None if there was none

The process runs `code`, which calls `serve`, with the first request.  It answers later ones too,
a line each, and leaves when it is idle.
"""

from __future__ import annotations

import atexit
import json
import select
import subprocess
import sys
from collections.abc import Callable
from threading import Lock

__all__ = ["ask", "serve"]

#: Seconds without work after which the process leaves.
_IDLE = 5.0

_lock = Lock()
_process: subprocess.Popen[str] | None = None


def ask(code: str, request: str, patience: float) -> str | None:
    """The answer of the other process; None if it died or took more seconds than `patience`.

    Where no process may be started, the answer is "", as if all were well.
    """
    global _process
    with _lock:
        for _ in range(2):  # an idle process may leave just as it is asked
            if _process is not None and _process.poll() is not None:
                _stop()
            process = _process = _process or _start(code)
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
            # Its pipe is closed before it has ended: on a busy machine that takes a while.
            left = bool(ready) and _ended(process, patience) == 0
            _stop()
            if not left:
                break
    return None


def _ended(process: subprocess.Popen[str], patience: float) -> int | None:
    """How a process that closes its pipes ends; None if it does not."""
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        return None


def _start(code: str) -> subprocess.Popen[str] | None:
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return None
    assert process.stdout is not None
    process.stdout.readline()  # it has begun: importing may take long on a busy machine
    return process


def _stop() -> None:
    global _process
    if _process is not None:
        _process.kill()
        with _process:  # closes its pipes and waits for it
            _process = None


atexit.register(_stop)


def serve(answer: Callable[[str], str]) -> None:
    """In the other process: answer requests until there are none for a while."""
    print("ready", flush=True)
    while select.select([sys.stdin], [], [], _IDLE)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        print(json.dumps(answer(line)), flush=True)
