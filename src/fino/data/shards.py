"""Finished work on the disk while a file is being made: shards that survive any interruption.

    FILE.parts/card.json       what is being made; another card is refused
    FILE.parts/00000000.shard  a line of JSON (checksums, seconds), then float32 numbers

A shard is written under a temporary name, flushed and renamed.  When all are there, the file is
put together beside them, flushed and given its name; only then do the parts go.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fino.data.card import Card
from fino.data.dataset import sample_digest
from fino.data.store import read_native, write_native
from fino.durable import replace, whole_file, write_whole

__all__ = ["Shards"]


#: The checksum of each sample of a shard, and the seconds that it took.
Head = tuple[list[bytes], float]

#: The line before the numbers is filled up to a multiple of this.
_LINE = 4096


@dataclass(frozen=True)
class Shards:
    """The unfinished state of one file."""

    path: Path
    card: Card
    size: int
    checked: dict[int, Head] = field(default_factory=dict)

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
                numbers, head = self._read(start, stop)
                if [sample_digest(sample) for sample in numbers] != head[0]:
                    raise ValueError("damaged shard")
                self.checked[start] = head
            except (OSError, ValueError, KeyError, TypeError):
                yield start, stop

    def keep(self, start: int, block: np.ndarray, seconds: float) -> None:
        """Put a finished shard on the disk for good."""
        numbers = np.ascontiguousarray(block, dtype="<f4")
        digests = [sample_digest(sample) for sample in numbers]
        facts = {"sha256": [digest.hex() for digest in digests], "seconds": seconds}
        head = json.dumps(facts).encode()
        head = head.ljust(-(-(len(head) + 1) // _LINE) * _LINE - 1) + b"\n"
        with whole_file(self._shard(start)) as temporary, temporary.open("wb") as file:
            file.write(head)
            file.write(numbers.data)
        self.checked[start] = (digests, seconds)

    def _read(self, start: int, stop: int) -> tuple[np.ndarray, Head]:
        """A shard's numbers, mapped, and what its first line says of them."""
        with self._shard(start).open("rb") as file:
            line = file.readline()
        facts = json.loads(line)
        shape = (stop - start, *self.card.shape[1:])
        numbers = np.memmap(self._shard(start), "<f4", "r", offset=len(line), shape=shape)
        return numbers, ([bytes.fromhex(d) for d in facts["sha256"]], float(facts["seconds"]))

    def assemble(self) -> float:
        """Put the file together from its shards; returns the seconds that they took."""
        blocks = (
            (self._read(start, stop)[0], self.checked[start][0]) for start, stop in self._ranges()
        )
        whole = self.folder / "whole.h5"
        write_native(whole, self.card, blocks)
        replace(whole, self.path)
        return sum(seconds for _, seconds in self.checked.values())

    def clear(self) -> None:
        """Remove the parts; what cannot be removed does no harm."""
        with suppress(OSError):
            shutil.rmtree(self.folder)
