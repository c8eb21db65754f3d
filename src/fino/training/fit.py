"""`fino.fit` and `resume`: train a model, and keep its folder up to date while it happens."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

from fino.data.dataset import Dataset
from fino.durable import check_no_link, clear_leftovers, hold_alone, write_json
from fino.machine import keep_freed_memory, threads
from fino.model.emulator import Emulator
from fino.model.store import load, repair, save, save_trust
from fino.training.bars import training_bar
from fino.training.checkpoint import STATE, has_checkpoint, read_checkpoint, write_checkpoint
from fino.training.choices import check_machine, choose_settings
from fino.training.journal import Journal
from fino.training.loop import Happened, State, begin, train
from fino.training.processes import Processes, join_processes
from fino.training.run import Run, find_run
from fino.training.run_data import check_same_data, describe_data, reopen_data
from fino.training.settings import TrainingSettings
from fino.trust.bands import calibrate as measure_trust

__all__ = ["Interrupted", "calibrate", "fit", "resume"]

Progress = Callable[[Happened], None]

_LOCK = ".lock"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: The files that a training writes into its folder.
_FILES = r"settings\.json|data\.json|metrics\.jsonl|loss\.png"


class Interrupted(KeyboardInterrupt):
    """Stopped by the user; everything is saved."""


def fit(
    model: Emulator,
    data: Dataset,
    minutes: float | None = None,
    out: str | Path | None = None,
    *,
    members: int | None = None,
    progress: Progress | bool = True,
    **settings: Any,
) -> Run:
    """Train a model on the train part of the data and keep the best by its validation part.

    The budget is five minutes unless `minutes`, `cpu_seconds`, `steps` or `epochs` says
    otherwise.  `out` is the run's folder; a new one under runs/ if not given.  `settings` are those
    of TrainingSettings.

    A bar on standard error shows the time left and the validation error, in a terminal and in a
    notebook; piped, a line at each validation.  `progress=False` is silent; a function is called
    after every step with what happened.

    With `members`, such as 3, an ensemble of so many networks is trained in its place, each on its
    own error; they share all stacks but the last, and the model is their mean.

    The model given is trained in place otherwise; `run.model` has the best weights, and `run.data`
    are the data given, so that fino.evaluate(run) and fino.report(run) read nothing again.
    """
    if members is not None:
        model = model.with_members(members)
    chosen = choose_settings(TrainingSettings(minutes=minutes, **settings), model, data)
    name = f"{data.card.name}-{model.settings.model}"
    folder = Path(out) if out is not None else _free_folder(name)
    with join_processes(chosen.device) as processes, threads(chosen.threads):
        if processes.is_first:
            _check_free(folder)
        with _alone(folder, processes):
            if processes.is_first:
                _lay_out(folder, model, data, chosen)
            return _run(begin(model, chosen), data, chosen, folder, processes, progress)


def resume(
    run: Run | str | Path,
    data: Dataset | str | Path | None = None,
    *,
    progress: Progress | bool = True,
    **changes: Any,
) -> Run:
    """Go on with an interrupted run; the weights end up as if it had never stopped.

    `data` are the run's own: where they are now if the file has moved, and always if they were
    never on disk; others are refused.  `changes` replace settings, such as a larger budget.
    `progress` is as in `fino.fit`.
    """
    run = find_run(run)
    folder = run.results_folder
    if folder is None:
        raise ValueError(f"{run.name} is a model alone: only a run folder can be resumed.")
    settings = run.settings.changed(**changes) if changes else run.settings
    if isinstance(data, str | Path):
        data = reopen_data({**run.data_facts, "path": str(data)}, folder)
    data = run.data if data is None else data
    check_same_data(data, run.data_facts, folder)
    check_machine(settings, data)
    if not settings.has_budget:
        raise ValueError(f"{folder / 'settings.json'} has no budget. Add one, such as --minutes 5.")
    with (
        join_processes(settings.device) as processes,
        threads(settings.threads),
        _alone(folder, processes),
    ):
        if processes.is_first:
            _tidy(folder)
            write_json(folder / "settings.json", settings.model_dump(mode="json"))
        state = begin(load(folder / "start"), settings)
        if has_checkpoint(folder / "last"):
            read_checkpoint(state, folder / "last")
        return _run(state, data, settings, folder, processes, progress)


def _alone(folder: Path, processes: Processes) -> AbstractContextManager[None]:
    """Hold a run's folder: two that train it at once would undo each other."""
    if not processes.is_first:
        return nullcontext()
    return hold_alone(folder / _LOCK, f"Another process is training {folder}")


def _tidy(folder: Path) -> None:
    """Put right what a kill left in a run's folder; what a user keeps there stays."""
    check_no_link(*(folder / name for name in ("last", "model", "start")))
    for name in ("model", "start"):
        repair(folder / name)
    clear_leftovers(folder, _FILES)
    if (folder / "last").is_dir():
        clear_leftovers(folder / "last", STATE)


def calibrate(
    run: Run | str | Path,
    data: Dataset | str | Path | None = None,
    *,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Measure what training saw and how far off predictions are, and keep it with the model.

    `fino.fit` does this when it ends; here it is for models of earlier versions.  What was learned
    from is the training part of the data, which are the run's own if not given; bands are
    calibrated on its validation part.
    """
    run = find_run(run, data)
    if run.is_shipped or not isinstance(run.model, Emulator):
        raise ValueError(f"{run.name} cannot be calibrated: that is for trained runs and models.")
    run.check()
    run.model.trust = measure_trust(run.model, run.data, progress=progress)
    if run.folder is not None:
        is_run = run.results_folder is not None
        save_trust(run.model.trust, run.folder / "model" if is_run else run.folder)
    return run


def _run(
    state: State,
    data: Dataset,
    settings: TrainingSettings,
    folder: Path,
    processes: Processes,
    progress: Progress | bool,
) -> Run:
    """Train, and let the folder keep up with what happens."""
    keep_freed_memory()
    quiet = not (progress and processes.is_first)
    bar = nullcontext(progress) if callable(progress) else training_bar(quiet)
    journal = Journal(folder, settings, state.step) if processes.is_first else None
    saved = time.monotonic()
    with bar as show, _asked_to_stop() as asked:
        for happened in train(state, data, settings, processes):
            show(happened)
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
    if journal is None:
        return Run(folder, data=data)
    write_checkpoint(state, folder / "last")
    best = _keep_best(state, folder)
    best.trust = measure_trust(best, data)
    save_trust(best.trust, folder / "model")
    journal.close()
    return Run(folder, model=best, data=data)


def _keep_best(state: State, folder: Path) -> Emulator:
    """Write the best weights as a model that fino.load reads, and return it."""
    best = load(folder / "start")
    best.load_state_dict(state.best_weights or state.candidate.state_dict())
    save(best, folder / "model", overwrite=True)
    return best


def _lay_out(folder: Path, model: Emulator, data: Dataset, settings: TrainingSettings) -> None:
    """A new folder with what is known before the first step."""
    _check_free(folder)
    write_json(folder / "data.json", describe_data(data))
    save(model, folder / "start")
    save(model, folder / "model")
    # Last, because a folder with settings is a run that can be resumed.
    write_json(folder / "settings.json", settings.model_dump(mode="json"))


def _check_free(folder: Path) -> None:
    if folder.exists() and any(path.name != _LOCK for path in folder.iterdir()):
        raise ValueError(
            f"{folder} exists already. Go on with `fino train --resume {folder}`, "
            "or choose another folder."
        )


def _free_folder(name: str) -> Path:
    folders = (Path("runs") / f"{name}-{number}" for number in count(1))
    return next(folder for folder in folders if not folder.exists())


@contextmanager
def _asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C, SIGTERM or SIGHUP, to be looked at between steps; a second stops at once."""
    asked = False

    def note(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    # A signal that is ignored stays so: nohup lets a training outlive its terminal.
    wanted = [s for s in _SIGNALS if signal.getsignal(s) != signal.SIG_IGN]
    before = {s: signal.signal(s, note) for s in wanted}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
