"""The training of a recipe's cases: one after the other, or several at a time.

Several at a time means a process for each.  On small fields one thread a model and two models at
once do more than two threads on one model; and every process can be killed and gone on with.
A process whose parent is gone stops by itself, so that no run is ever worked on twice.

    python -m fino.recipe.training < order.json        what such a process is started with
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import fino
from fino.machine import threads
from fino.model.store import model_hash
from fino.recipe.recipe import DataChoice
from fino.recipe.sources import opened
from fino.recipe.sweep import Case
from fino.training.fit import Interrupted, fit, resume

__all__ = ["Order", "train_case", "train_together"]

#: What is to be trained: the case, its data file, its run folder, and whether to go on with it.
Order = tuple[Case, Path, Path, bool]


def train_case(order: Order, progress: Callable[[Any], None] | None = None) -> str:
    """Train one case in this process; returns the SHA-256 of its weights."""
    case, path, folder, going_on = order
    data = opened(case.data, path)
    # From the first look at the data on: threads of two processes on the same cores wait for
    # each other, and building on a gigabyte took three minutes instead of half a minute.
    with threads(case.train.get("threads")):
        if going_on:
            resume(folder, data, progress=progress)
        else:
            model = fino.build(case.model, data, seed=case.seed, **case.build)
            fit(model, data, out=folder, progress=progress, **case.train)
    return model_hash(folder / "model")


def train_together(orders: Sequence[Order], jobs: int) -> Iterator[tuple[int, float]]:
    """Train each in a process of its own, `jobs` at a time; yields (which, seconds) as they end."""
    waiting = list(enumerate(orders))
    running: dict[int, tuple[subprocess.Popen[str], IO[str], float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                number, order = waiting.pop(0)
                running[number] = (*_started(order, jobs), time.monotonic())
            for number, (process, complaint, began) in list(running.items()):
                if process.poll() is not None:
                    del running[number]
                    with complaint:
                        _check_end(process.returncode, complaint)
                    yield number, time.monotonic() - began
            time.sleep(0.1)
    finally:
        for process, _, _ in running.values():
            process.send_signal(signal.SIGTERM)
        for process, complaint, _ in running.values():
            process.wait()
            complaint.close()


def _started(order: Order, jobs: int) -> tuple[subprocess.Popen[str], IO[str]]:
    """A process that was told what to train, and the file that it complains into.

    Its own session keeps Ctrl-C for the parent; a pipe would fill up, since nobody reads it.
    """
    complaint = tempfile.TemporaryFile("w+")  # noqa: SIM115
    case, path, folder, going_on = order
    train = {"threads": max(1, (os.cpu_count() or 1) // jobs), **case.train}
    content = {**asdict(case), "data": case.data.model_dump(mode="json"), "train": train}
    words = {"case": content, "path": str(path), "folder": str(folder), "going_on": going_on}
    process = subprocess.Popen(
        [sys.executable, "-m", "fino.recipe.training"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=complaint,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({**words, "parent": os.getpid()}))
    process.stdin.close()
    return process, complaint


def _check_end(code: int, complaint: IO[str]) -> None:
    if code == 130:
        raise Interrupted("a training process was stopped, everything is saved.")
    if code:
        complaint.seek(0)
        lines = complaint.read().strip().splitlines()
        raise ValueError(lines[-1] if lines else f"a training process ended with code {code}.")


def _obey() -> int:
    """Train what standard input says, as long as the process that said it lives."""
    words = json.load(sys.stdin)
    content = words["case"]
    case = Case(**{**content, "data": DataChoice(**content["data"])})

    def look(happened: Any) -> None:
        if os.getppid() != words["parent"]:
            raise Interrupted

    try:
        train_case((case, Path(words["path"]), Path(words["folder"]), words["going_on"]), look)
    except Interrupted:
        return 130
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_obey())
