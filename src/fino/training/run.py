"""A training run is a folder that can be resumed, read and shared.

model/           the best model so far, for fino.load
last/            the checkpoint to go on from
start/           the model before the first step
settings.json    how it was trained
data.json        on what: card, path, SHA-256
metrics.jsonl    what happened, one JSON object a line
loss.png         the same as a picture
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from fino.allocator import keep_freed_memory
from fino.data.dataset import Dataset
from fino.durable import write_whole
from fino.model.emulator import Emulator
from fino.model.store import load, save
from fino.training.checkpoint import has_checkpoint, read_checkpoint, write_checkpoint
from fino.training.choices import choose_settings
from fino.training.journal import Journal, read_metrics
from fino.training.loop import Happened, State, begin, train
from fino.training.processes import Processes, joined
from fino.training.settings import TrainingSettings
from fino.training.shelf import describe_data, reopen
from fino.training.threads import threads

__all__ = ["Interrupted", "Run", "fit", "resume"]

Progress = Callable[[Happened], None]


class Interrupted(KeyboardInterrupt):
    """Stopped by the user; everything is saved."""


class Run:
    """A run folder, read lazily."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "settings.json").is_file():
            raise ValueError(
                f"{self.folder} is not a run folder: it has no settings.json. "
                "Train one with fino.fit or `fino train`."
            )

    def __repr__(self) -> str:
        return f"Run({self.folder})"

    @cached_property
    def model(self) -> Emulator:
        """The best model of the run."""
        return load(self.folder / "model")

    @cached_property
    def settings(self) -> TrainingSettings:
        values = json.loads((self.folder / "settings.json").read_text())
        return TrainingSettings(**values)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """What happened, oldest first."""
        return read_metrics(self.folder / "metrics.jsonl")

    @property
    def facts(self) -> dict[str, Any]:
        """The data that it was trained on: card, path, hash, split."""
        facts: dict[str, Any] = json.loads((self.folder / "data.json").read_text())
        return facts

    def data(self) -> Dataset:
        """The data that it was trained on, opened again and checked."""
        return reopen(self.facts)


def fit(
    model: Emulator,
    data: Dataset,
    minutes: float | None = None,
    out: str | Path | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> Run:
    """Train a model on the train part of the data and keep the best by its validation part.

    The budget is five minutes unless `minutes`, `cpu_seconds`, `steps` or `epochs` says
    otherwise.  `settings` are those of TrainingSettings.  The model given is trained in place;
    run.model is the best one.
    """
    chosen = TrainingSettings(minutes=minutes, **settings)
    chosen = choose_settings(chosen, model, data)
    folder = (
        Path(out) if out is not None else _free_folder(f"{data.card.name}-{model.settings.model}")
    )
    with joined(chosen.device) as processes, threads(chosen.threads):
        if processes.is_first:
            _lay_out(folder, model, data, chosen)
        state = begin(model, chosen)
        return _run(state, data, chosen, folder, processes, progress)


def resume(
    folder: str | Path,
    data: Dataset | None = None,
    *,
    progress: Progress | None = None,
    **changes: Any,
) -> Run:
    """Go on with an interrupted run; the weights end up as if it had never stopped.

    Data that were never on disk have to be given again.  `changes` replace settings, such as a
    larger budget.
    """
    run = Run(folder)
    data = reopen(run.facts) if data is None else data
    if data.hash != run.facts["hash"]:
        raise ValueError(
            f"{run.folder} was trained on other data: the SHA-256 is {data.hash[:12]}…, it was "
            f"{run.facts['hash'][:12]}…. Open the file that it was trained on."
        )
    settings = run.settings.changed(**changes) if changes else run.settings
    with joined(settings.device) as processes, threads(settings.threads):
        if processes.is_first:
            _write_json(run.folder / "settings.json", settings.model_dump(mode="json"))
            for leftover in run.folder.glob(".*"):
                shutil.rmtree(leftover, ignore_errors=True)
        state = begin(load(run.folder / "start"), settings)
        if has_checkpoint(run.folder / "last"):
            read_checkpoint(state, run.folder / "last")
        return _run(state, data, settings, run.folder, processes, progress)


def _run(
    state: State,
    data: Dataset,
    settings: TrainingSettings,
    folder: Path,
    processes: Processes,
    progress: Progress | None,
) -> Run:
    """Train, and let the folder keep up with what happens."""
    keep_freed_memory()
    journal = Journal(folder, settings, state.step) if processes.is_first else None
    saved = time.monotonic()
    with _asked_to_stop() as asked:
        for happened in train(state, data, settings, processes):
            if progress is not None:
                progress(happened)
            stop = bool(processes.total(asked()))
            if journal is None:
                if stop:
                    raise Interrupted
                continue
            journal.add(happened)
            if happened.improved:
                _keep_best(state, folder)
            if stop or time.monotonic() - saved >= settings.checkpoint_seconds:
                write_checkpoint(state, folder / "last")
                saved = time.monotonic()
            if stop:
                journal.close()
                raise Interrupted(
                    f"stopped at step {state.step}, everything is saved. "
                    f"Go on with: fino train --resume {folder}"
                )
    if journal is not None:
        write_checkpoint(state, folder / "last")
        _keep_best(state, folder)
        journal.close()
    return Run(folder)


def _keep_best(state: State, folder: Path) -> None:
    """Write the best weights as a model that fino.load reads."""
    best = load(folder / "start")
    best.load_state_dict(state.best_weights or state.candidate.state_dict())
    save(best, folder / "model", overwrite=True)


def _lay_out(folder: Path, model: Emulator, data: Dataset, settings: TrainingSettings) -> None:
    """A new folder with what is known before the first step."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} exists already. Go on with `fino train --resume {folder}`, "
            "or choose another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "data.json", describe_data(data))
    save(model, folder / "start")
    save(model, folder / "model")
    # Last, because a folder with settings is a run that can be resumed.
    _write_json(folder / "settings.json", settings.model_dump(mode="json"))


def _free_folder(name: str) -> Path:
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and a polite kill into a question asked between steps; a second one insists."""
    asked = False

    def note(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
