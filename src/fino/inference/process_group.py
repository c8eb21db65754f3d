"""Processes that torchrun started: joining them, leaving together, and naming one that died.

    with join_group() as group:
        group.rank, group.size

Every rank writes a heartbeat to torch's own store every few seconds and watches that of the next
rank.  One whose heartbeat stops, or whose connection closes, is named once for all; the others
end with that line, and torchrun ends what is left of them.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

import torch.distributed as dist

from fino.durable import is_alive

__all__ = ["ProcessGroup", "is_launched", "join_group", "rank_and_size"]

#: Seconds between two heartbeats, and without one before a rank counts as dead.
_BEAT = 2.0
_PATIENCE = 15.0
#: A rank may wait long for one that is slow; the heartbeat tells slow from dead.
_TIMEOUT = timedelta(hours=1)
_DEAD = "dead"


def rank_and_size() -> tuple[int, int]:
    """This process among how many that torchrun started; (0, 1) without it."""
    rank, size = os.environ.get("RANK"), int(os.environ.get("WORLD_SIZE", "1"))
    return (0, 1) if rank is None else (int(rank), size)


def is_launched() -> bool:
    """Whether torchrun started this process as one of several."""
    return rank_and_size()[1] > 1


@dataclass(eq=False)
class ProcessGroup:
    """The ranks that work together."""

    rank: int
    size: int
    store: dist.Store
    _over: threading.Event = field(default_factory=threading.Event)

    def lost(self, rank: int, error: BaseException) -> ConnectionError:
        """What to raise when a neighbour no longer answers: names the rank that died first."""
        text = _first_line(error)
        cause = "its connection closed" if "onnection" in text else text
        first = self._behind(rank)
        reason = f"rank {first} of {self.size} ended or cannot be reached: {cause}"
        return ConnectionError(f"{self._name_dead(reason)}; rank {self.rank} stops.")

    def lost_one(self, error: BaseException) -> ConnectionError:
        """The same where all talk to all, and it is not known who no longer answers."""
        dead = self.find_dead()
        return self.lost(self._silent() if dead is None else dead, error)

    def find_dead(self) -> int | None:
        """A rank on this machine whose process is gone; None if there is none."""
        with suppress(Exception):
            for rank in range(self.size):
                host, _, process = self.store.get(f"beat/{rank}").decode().split()
                if host == socket.gethostname() and not is_alive(int(process)):
                    return rank
        return None

    def beat(self, number: int) -> None:
        """Write the heartbeat: the machine, a number that grows, the process."""
        self.store.set(f"beat/{self.rank}", f"{socket.gethostname()} {number} {os.getpid()}")

    def _silent(self) -> int:
        """The first other rank that does not say in time that it has lost one too."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        with suppress(Exception):
            self.store.set(f"asks/{self.rank}", "")
            return next((rank for rank in others if not self._tells(rank, "asks")), others[0])
        return others[0]

    def _behind(self, rank: int) -> int:
        """Who died when `rank` no longer answers: it, or the one whom it lost itself.

        gloo closes every connection of a rank that has lost one, so a living neighbour looks
        dead too.  Each rank tells whom it lost; one that tells nothing is the dead one.
        """
        with suppress(Exception):
            self.store.set(f"lost/{self.rank}", str(rank))
            met = {self.rank}
            while rank not in met and self._tells(rank):
                met.add(rank)
                rank = int(self.store.get(f"lost/{rank}"))
        return rank

    def _tells(self, rank: int, what: str = "lost") -> bool:
        """Whether a rank says in time that it lost another; no need once one is named."""
        # Asked again and again: a wait that ends in vain prints pages from inside torch.
        end = time.monotonic() + _BEAT
        while not (told := self.store.check([f"{what}/{rank}"])):
            if time.monotonic() > end or self.store.check([_DEAD]):
                break
            time.sleep(0.02)
        return bool(told)

    def _name_dead(self, reason: str) -> str:
        with suppress(Exception):
            named = self.store.compare_set(_DEAD, "", reason)
            return named.decode() or reason
        return reason

    def watch(self) -> None:
        """Write a heartbeat and look for that of the next rank, until the group is left."""
        following, seen, silent, beat = (self.rank + 1) % self.size, b"", 0.0, 0
        while not self._over.wait(_BEAT):
            beat += 1
            try:
                self.beat(beat)
                is_there = self.store.check([f"beat/{following}"])
                latest = self.store.get(f"beat/{following}") if is_there else b""
            except Exception:
                latest = seen
            silent = 0.0 if latest != seen else silent + _BEAT
            seen = latest
            if silent > _PATIENCE and not self._over.is_set():
                host = f" on {seen.decode().split()[0]}" if seen else ""
                line = self._name_dead(
                    f"rank {following} of {self.size}{host} gave no sign of life for {silent:.0f} s"
                )
                os.write(2, f"fino: {line}; rank {self.rank} stops.\n".encode())
                os._exit(1)


@contextmanager
def join_group(backend: str = "gloo") -> Iterator[ProcessGroup]:
    """Join the processes of this job; all leave together, or the first failure is named.

    `gloo` carries tensors in memory, `nccl` those on CUDA devices.
    """
    if not is_launched():
        raise ValueError(
            "This process was not started as one of several. Use "
            "torchrun --nproc-per-node 4 -m fino rollout …"
        )
    store, rank, size = next(iter(dist.rendezvous("env://", timeout=timedelta(seconds=60))))
    ranks = dist.PrefixStore("ranks", store)
    dist.init_process_group(backend, store=ranks, rank=rank, world_size=size, timeout=_TIMEOUT)
    group = ProcessGroup(rank, size, dist.PrefixStore("life", store))
    group.beat(0)
    watcher = threading.Thread(target=group.watch, daemon=True)
    watcher.start()
    try:
        yield group
        # Without this barrier a rank that is done tears down connections that others still use.
        dist.barrier()
    except KeyboardInterrupt:
        # torchrun ends the others when one has died: they say who it was.
        dead = group.find_dead()
        if dead is None:
            raise
        raise group.lost(dead, ConnectionError("its connection closed")) from None
    except BaseException as error:
        group._name_dead(f"rank {rank} of {size} ended: {_first_line(error)}")
        if rank == 0:
            time.sleep(_BEAT)  # without torchrun the store lives here, and others still read it
        raise
    finally:
        group._over.set()
        watcher.join(timeout=2 * _BEAT)
        dist.destroy_process_group()


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:199] + "…"
