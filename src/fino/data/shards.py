"""Finished work on the disk while a file is being made: shards that survive any interruption.

    FILE.parts/card.json       what is being made; another card is refused
    FILE.parts/00000000.shard  a line of JSON (checksum, seconds), then float32 numbers

A shard is written under a temporary name, flushed and renamed.  When all are there, the file is
put together beside them, flushed and given its name; only then do the parts go.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fino.data.card import Card
from fino.data.durable import replace, write_whole
from fino.data.store import read_native, write_native

__all__ = ["Shards"]


@dataclass(frozen=True)
class Shards:
    """The unfinished state of one file."""

    path: Path
    card: Card
    size: int

    @property
    def folder(self) -> Path:
        return self.path.with_name(self.path.name + ".parts")

    def is_finished(self, overwrite: bool) -> bool:
        """Whether the very file is there already; another one is refused, not overwritten."""
        if not self.path.exists() or overwrite:
            return False
        try:
            same = read_native(self.path).card.changed(cost=None) == self.card
        except (ValueError, OSError, KeyError, RuntimeError):
            same = False
        if not same:
            raise ValueError(
                f"{self.path} exists already and holds something else. Choose another name, or "
                "allow overwriting."
            )
        # A file has its name only when it is whole: parts that are left are of no use any more.
        self.clear()
        return True

    @contextmanager
    def locked(self, overwrite: bool) -> Iterator[None]:
        """Hold the folder of parts alone, after making sure that it is about the same data."""
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(f"another process is making {self.path} now.") from None
            self._begin(overwrite)
            yield
        finally:
            os.close(handle)

    def _begin(self, overwrite: bool) -> None:
        plan = self.folder / "card.json"
        wanted = self.card.to_json().encode()
        if plan.exists() and plan.read_bytes() != wanted:
            if not overwrite:
                raise ValueError(
                    f"{self.folder} holds an unfinished file with other settings. Finish it with "
                    "the same settings, or allow overwriting to begin again."
                )
            for old in self.folder.glob("*.shard"):
                old.unlink()
        write_whole(plan, wanted)

    def _shard(self, start: int) -> Path:
        return self.folder / f"{start:08d}.shard"

    def _ranges(self) -> Iterator[tuple[int, int]]:
        for start in range(0, self.card.samples, self.size):
            yield start, min(start + self.size, self.card.samples)

    def missing(self) -> Iterator[tuple[int, int]]:
        """The ranges of samples that are still to be solved."""
        for start, stop in self._ranges():
            try:
                self._read(start, stop)
            except (OSError, ValueError, KeyError):
                yield start, stop

    def keep(self, start: int, block: np.ndarray, seconds: float) -> None:
        """Put a finished shard on the disk for good."""
        numbers = np.ascontiguousarray(block, dtype="<f4").tobytes()
        head = {"sha256": hashlib.sha256(numbers).hexdigest(), "seconds": seconds}
        write_whole(self._shard(start), json.dumps(head).encode() + b"\n" + numbers)

    def _read(self, start: int, stop: int) -> tuple[np.ndarray, float]:
        head, _, numbers = self._shard(start).read_bytes().partition(b"\n")
        facts = json.loads(head)
        if hashlib.sha256(numbers).hexdigest() != facts["sha256"]:
            raise ValueError("damaged shard")
        shape = (stop - start, *self.card.shape[1:])
        return np.frombuffer(numbers, dtype="<f4").reshape(shape), float(facts["seconds"])

    def assemble(self) -> float:
        """Put the file together from its shards; returns the seconds that they took."""
        seconds = 0.0

        def blocks() -> Iterator[np.ndarray]:
            nonlocal seconds
            for start, stop in self._ranges():
                block, took = self._read(start, stop)
                seconds += took
                yield block

        whole = self.folder / "whole.h5"
        write_native(whole, self.card, blocks())
        replace(whole, self.path)
        return seconds

    def clear(self) -> None:
        """Remove the parts; what cannot be removed does no harm."""
        with suppress(OSError):
            shutil.rmtree(self.folder)
