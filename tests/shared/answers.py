"""The command line called inside this process, and what a polite answer to a mistake is."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fino.cli.app import main
from fino.data.open import _try as try_files


@dataclass(frozen=True)
class Answer:
    """What a command came to: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line that answers a mistake."""
        assert self.is_polite, f"exit {self.code}\n{self.err[-3000:]}"
        assert self.code == 2, f"exit {self.code}, expected a mistake to be answered\n{self.out}"
        return self.err.splitlines()[-1]

    @property
    def is_polite(self) -> bool:
        """Done, or exit 2 with one line; what a progress bar drew before it does not count."""
        if self.code == 0:
            return True
        lines = [line for line in self.err.splitlines() if line.startswith("fino: ")]
        said = [line for line in lines if not line.startswith("fino: warning: ")]
        return self.code == 2 and len(said) == 1 and "Traceback" not in self.err


def fino(*words: Any) -> Answer:
    """`fino WORDS` in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        mock.patch.object(sys, "argv", ["fino", *map(str, words)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # as for a user, who does not turn them into errors
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
    return Answer(code, out.getvalue(), err.getvalue())


def fino_apart(*words: Any, seconds: float = 30.0, gigabytes: float = 2.0) -> Answer:
    """The same in a copy of this process: whatever it does to itself, it ends as an answer.

    A crash is its negative signal, a hang -1 and 99 more memory than allowed; the allocator
    itself gives out half a gigabyte beyond, so that taking too much is seen and does no harm.
    """
    mapped, size = _memory()[0], 2**30
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        limit = mapped + int((gigabytes + 0.5) * size)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        answer = fino(*words)
        if _memory()[1] > gigabytes * size:
            answer = Answer(99, answer.out, f"took {_memory()[1] / size:.1f} GB\n{answer.err}")
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps([answer.code, answer.out, answer.err]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        is_late = not select.select([pipe], [], [], seconds)[0]
        if is_late:
            os.kill(child, signal.SIGKILL)
        content = b"" if is_late else pipe.read()
    _, status = os.waitpid(child, 0)
    if is_late:
        return Answer(-1, "", f"hangs: no answer after {seconds} s")
    if not content:
        return Answer(-os.WTERMSIG(status), "", f"crashes: status {status}")
    return Answer(*json.loads(content))


def fino_in_turn(commands: Sequence[Sequence[Any]], seconds: float = 60.0) -> Iterator[Answer]:
    """The same for many commands: one copy runs them in turn for as long as all goes well.

    A command that ends otherwise than politely, or with too much memory, is run again alone.
    """
    left = list(commands)
    while left:
        for answer in _answers_of_a_copy(left, seconds):
            words = left.pop(0)
            yield answer if answer.is_polite else fino_apart(*words, seconds=2 * seconds)
            if not answer.is_polite:
                break


def _answers_of_a_copy(commands: list[Sequence[Any]], seconds: float) -> Iterator[Answer]:
    """What a copy of this process answers, until it is impolite, takes too much, dies or hangs."""
    reading, writing = os.pipe()
    mapped, size = _memory()[0], 2**30
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (mapped + 5 * size // 2,) * 2)
        with os.fdopen(writing, "wb") as pipe:
            for words in commands:
                answer = fino(*words)
                code = 99 if _memory()[1] > 2 * size else answer.code
                pipe.write(json.dumps([code, answer.out, answer.err]).encode() + b"\n")
                pipe.flush()
                if code not in (0, 2):
                    break
        os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as pipe:
            for _ in commands:
                line = pipe.readline() if select.select([pipe], [], [], seconds)[0] else b""
                yield Answer(*json.loads(line)) if line else Answer(-1, "", "crashes or hangs")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def ask_a_copy(code: str, request: str, patience: float) -> str | None:
    """What `fino.data.trial.ask` does, by a copy of this process: nothing is imported anew."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(try_files(request)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        ready = select.select([pipe], [], [], patience)[0]
        content = pipe.read() if ready else b""
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(content) if content else None


def _memory() -> tuple[int, int]:
    """What this process has mapped, and the most that it had in memory, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize(), peak
