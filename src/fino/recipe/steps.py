"""What was done, from what, so that it need not be done again.

A step is known by a fingerprint: the SHA-256 of its settings and of the results of the steps it
needs.  Beside the results, one small file for each step remembers it:

    steps/train-fino.json     {"fingerprint": …, "result": …, "seconds": …, "settings": …}

A record without a result is a step that was begun and not finished.  A step is done again when
its fingerprint has changed, when what it needs is done again, or when its result is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fino.durable import write_whole

__all__ = ["Ledger", "Step", "file_hash"]


@dataclass(frozen=True, eq=False)
class Step:
    """One piece of work: its kind, its name, what it depends on and how to see its result.

    `present` gives the identity of the result on disk, None if it is not there.  A result that
    `may_grow`, such as a model that somebody trained on, is still the step's own.
    """

    kind: str
    name: str
    settings: dict[str, Any]
    present: Callable[[], str | None]
    needs: tuple[Step, ...] = ()
    seconds: float = 0.0
    may_grow: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.name}" if self.name else self.kind

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class Ledger:
    """The records of an experiment's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "steps"

    def record(self, step: Step) -> dict[str, Any]:
        """What is known about a step; nothing if there is no whole record."""
        try:
            content = json.loads((self.folder / f"{step.key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def fingerprint(self, step: Step) -> str | None:
        """The SHA-256 of what goes in; None while something needed is missing."""
        results = []
        for needed in step.needs:
            if self.state(needed) != "done":
                return None
            results.append(needed.present())
        content = json.dumps([step.kind, step.settings, results], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()

    def state(self, step: Step) -> str:
        """`done`, `begun`, `new`, or why it is to be done again: `changed`, `lost`."""
        record = self.record(step)
        if not record:
            return "new"
        fingerprint = self.fingerprint(step)
        if fingerprint is None or record.get("fingerprint") != fingerprint:
            return "changed"
        if record.get("result") is None:
            return "begun"
        present = step.present()
        same = present == record["result"] or (step.may_grow and present is not None)
        return "done" if same else "lost"

    def begin(self, step: Step) -> None:
        self._write(step, None, 0.0)

    def finish(self, step: Step, result: str, seconds: float) -> None:
        self._write(step, result, seconds)

    def seconds(self, step: Step) -> float | None:
        """How long the step took when it was last done."""
        took = self.record(step).get("seconds")
        return float(took) if took else None

    def _write(self, step: Step, result: str | None, seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "fingerprint": self.fingerprint(step),
            "result": result,
            "seconds": round(seconds, 2),
            "settings": step.settings,
        }
        text = json.dumps(content, indent=1, default=str) + "\n"
        write_whole(self.folder / f"{step.key}.json", text.encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone: two runs in one folder would undo each other."""
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(f"Another run is at work in {self.folder.parent}.") from None
            yield
        finally:
            os.close(handle)


def file_hash(path: Path) -> str | None:
    """The SHA-256 of a file; None if it is not there."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
