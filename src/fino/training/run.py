"""A run: one noun for a trained thing, in memory, in a folder, or shipped with the package.

run = fino.fit(model, data)                 holds the model and the data of this process
run = fino.Run("runs/swe")                  reads what it is asked for, once
run = fino.PRETRAINED["shallow-water"]      came with the package
run = fino.find_run(thing)                  any of these, a model, a model folder, a name

runs/swe/
  model/           the best model so far, for fino.load
  last/            the checkpoint to go on from
  start/           the model before the first step
  settings.json    how it was trained
  data.json        on what: card, path, SHA-256
  metrics.jsonl    what happened, one JSON object a line
  loss.png         the same as a picture
  scores.json      what fino.evaluate measured
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, wraps
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.open import open as open_data
from fino.display import html_table
from fino.given import Given
from fino.inference.rollout import rollout as inference_rollout
from fino.metrics.scores import Scores
from fino.model import pretrained as shipped
from fino.model.emulator import Emulator
from fino.model.rollout import rollout as plain_rollout
from fino.model.store import is_there, load
from fino.settings import did_you_mean
from fino.training.journal import read_metrics
from fino.training.run_data import (
    check_fit,
    check_same_data,
    incomplete,
    read_facts,
    read_json,
    reopen_data,
)
from fino.training.settings import TrainingSettings
from fino.trust.equation import Equation

__all__ = ["PRETRAINED", "Run", "find_run", "pretrained", "rollout"]


class Run:
    """A trained thing: model, data, settings, scores; each is read when first asked for and kept.

    name         the folder's name, or the model's
    folder       where it lies; None for a model in memory
    model        the best model; any stepper in a run that `find_run` made of one
    data         what it was trained on; of a shipped model the test part, solved again
    settings     how it was trained
    metrics      what happened during training, the oldest row first
    scores       what fino.evaluate measured; None before, and if it was given other data
    card         data, recipe, scores, cost, reach, limits of a shipped model; None for others
    """

    def __init__(
        self, folder: str | Path | None = None, *, model: Any = None, data: Dataset | None = None
    ) -> None:
        if folder is None and model is None:
            raise ValueError("A run should have a folder or a model.")
        self.folder = None if folder is None else Path(folder)
        self._kind = "memory" if self.folder is None else _kind_of(self.folder)
        self._scores: Scores | None = None
        self._has_other_data = False
        self._own: Run | None = None
        if model is not None:
            self.model = model
        if data is not None:
            self.data = data

    def __repr__(self) -> str:
        if self._kind == "shipped":
            return f"Run({self.name}, shipped)"
        words = [self.name, *([str(self.folder)] if self.folder is not None else [])]
        with suppress(ValueError, KeyError):  # a damaged folder still has a name
            words += [f"{self.metrics[-1]['step']} steps"] if self.metrics else []
            words += [f"validation nRMSE {self.best['nrmse']:.3g}"] if self.best else []
        return f"Run({', '.join(words)})"

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"model": self.model_name, "folder": self.folder or "in memory"}
        with suppress(ValueError, KeyError):  # as above
            facts |= {"validation nRMSE": f"{self.best['nrmse']:.3g}"} if self.best else {}
            facts |= {f"test {m}": self.scores[m] for m in ("nrmse", "rmse")} if self.scores else {}
        return html_table(self.name, (), facts.items())

    @property
    def _place(self) -> Path:
        assert self.folder is not None, "a model in memory has no folder"
        return self.folder

    @property
    def name(self) -> str:
        return self.model_name if self.folder is None else self.folder.resolve().name

    @property
    def model_name(self) -> str:
        """What kind of model it is, such as fino or fno."""
        settings = getattr(self.model, "settings", None)
        return str(getattr(settings, "model", type(self.model).__name__.lower()))

    @property
    def is_shipped(self) -> bool:
        """Whether it came with the package."""
        return self._kind == "shipped"

    @property
    def results_folder(self) -> Path | None:
        """Where scores and reports belong: the run's folder; None for shipped and bare models."""
        return self.folder if self._kind == "run" else None

    @property
    def has_data(self) -> bool:
        """Whether it knows its data without being told."""
        return self._kind in ("run", "shipped") or "data" in self.__dict__

    @cached_property
    def model(self) -> Any:
        place = self._place / "model" if self._kind == "run" else self._place
        if not is_there(place):
            raise incomplete(self._place, "it has no model")
        model = load(place)
        with suppress(ValueError):  # a model alone does not know its data
            # Those of earlier versions do not say themselves what they were trained on.
            equation = Equation.of_card(self.data_card)
            model.trust = {"equation": equation.facts, **(model.trust or {})}
        return model

    @cached_property
    def data(self) -> Dataset:
        if self._kind == "shipped":
            return self.test_data()
        data = reopen_data(self.data_facts, self._place)
        check_same_data(data, self.data_facts, self._place)
        return data

    def test_data(
        self, samples: int | None = None, progress: Callable[[float], None] | None = None
    ) -> Dataset:
        """Data with at least the first so many test samples, or all.

        A shipped model's are solved again, so fewer take less time; other runs give their data.
        """
        if self._kind != "shipped" or "data" in self.__dict__:
            return self.data
        return shipped.solve_test_part(self.data_card, self.name, samples, progress)

    def check(self) -> None:
        """Read the model and the data, and refuse a pair that does not fit."""
        check_fit(self.model, self.data)

    def with_data(self, data: Dataset | str | Path, **options: Any) -> Run:
        """The same model with other data, which have to fit it.

        `options` are those of `fino.open`; what a file does not say is taken to be as in the file
        that the run was trained on.
        """
        if not isinstance(data, Dataset):
            usual = self.data_facts.get("opened") if self._kind == "run" else None
            data = open_data(data, usual=usual, **options)
        check_fit(self.model, data)
        other = copy.copy(self)
        other.__dict__.pop("is_own_data", None)
        other.data, other._scores, other._has_other_data = data, None, True
        other._own = self._own or self
        return other

    @cached_property
    def is_own_data(self) -> bool:
        """Whether its data are those that it was trained on, as far as is known."""
        if not self._has_other_data or self._kind != "run":
            return True
        return bool(self.data.hash == self.data_facts.get("hash"))

    @property
    def scores_name(self) -> str:
        """scores.json; scores-NAME.json for other data, whose scores never replace those."""
        if self.is_own_data:
            return "scores.json"
        name = self.data.path.stem if self.data.path else self.data.card.name
        place = self._place / f"scores-{name}.json"
        if place.is_file() and Scores.load(place).data["sha256"] != self.data.hash:
            return f"scores-{name}-{self.data.hash[-8:]}.json"
        return place.name

    @property
    def learned_from(self) -> Dataset | None:
        """The data that it was trained on, if they are at hand."""
        if self.is_own_data:
            return self.data
        with suppress(ValueError, OSError):  # moved, or never known
            return self._own.data if self._own is not None and self._own.has_data else None
        return None

    @cached_property
    def data_facts(self) -> dict[str, Any]:
        """Which data it was trained on: card, path, hash, samples, strides."""
        if self._kind == "shipped":
            return {"card": self.card["data"]["card"], "hash": self.card["data"]["sha256"]}
        if self._kind != "run":
            raise ValueError("A model alone does not know its data: pass data as well.")
        return read_facts(self._place / "data.json")

    @property
    def data_card(self) -> Card:
        """The card of the data that it was trained on, without opening them."""
        return Card(**self.data_facts["card"])

    @cached_property
    def settings(self) -> TrainingSettings:
        recorded = self.recorded_settings
        if recorded is None:
            raise ValueError("A model alone does not know how it was trained.")
        try:
            return TrainingSettings(**recorded)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self._place / 'settings.json'} is damaged: {error}") from None

    @cached_property
    def recorded_settings(self) -> dict[str, Any] | None:
        """The settings as they were written down; None for a model alone."""
        if self._kind == "shipped":
            return dict(self.card["recipe"]["training"])
        return read_json(self._place / "settings.json") if self._kind == "run" else None

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        return [] if self.folder is None else read_metrics(self.folder / "metrics.jsonl")

    @property
    def best(self) -> dict[str, Any] | None:
        """The row of `metrics` whose weights were kept; None if no validation stayed finite."""
        column = "validation" if self.settings.choose_by == "full" else "nrmse"
        rows = [row for row in self.metrics if None not in (row.get("nrmse"), row.get(column))]
        return min(rows, key=lambda row: row[column], default=None)

    @property
    def scores(self) -> Scores | None:
        if self._scores is None and self.folder and (self.folder / "scores.json").is_file():
            found = Scores.load(self.folder)
            if not self._has_other_data or found.data["sha256"] == self.data.hash:
                self._scores = found
        return self._scores

    @scores.setter
    def scores(self, scores: Scores) -> None:
        self._scores = scores

    @cached_property
    def card(self) -> Any:
        return shipped.read_card(self._place / shipped.CARD) if self.is_shipped else None

    @property
    def title(self) -> str:
        """A shipped model in a line: what it solves, how well, how far it sees."""
        if self.card is None:
            return f"{self.model_name}, {self.name}"
        return shipped.card_title(self.card)

    def predict(self, given: Given, steps: int) -> Tensor:
        """Roll out on the model's own device, in its mode for use: → (b, steps, c, *space)."""
        if not isinstance(self.model, nn.Module):
            return plain_rollout(self.model, given, steps)
        was_training, device = self.model.training, given.history.device
        weight = next(self.model.parameters(), given.history)
        self.model.eval()
        try:
            return plain_rollout(self.model, given.to(weight.device), steps).to(device)
        finally:
            self.model.train(was_training)


class _Pretrained(Mapping[str, Run]):
    """Every model in the package's folder of weights that has a card."""

    def __getitem__(self, name: str) -> Run:
        names = list(self)
        if name not in names:
            hint = did_you_mean(name, names) if names else "There are none in this installation."
            raise ValueError(f"There is no pretrained model '{name}'. {hint}")
        return Run(shipped.WEIGHTS / name)

    def __iter__(self) -> Iterator[str]:
        return iter(shipped.pretrained_names())

    def __len__(self) -> int:
        return len(shipped.pretrained_names())

    def __contains__(self, name: object) -> bool:
        return name in shipped.pretrained_names()


#: The runs that came with the package, by name; each look opens a fresh one.
PRETRAINED: Mapping[str, Run] = _Pretrained()


def pretrained(name: str) -> Emulator:
    """A trained model that came with the package: `fino list pretrained` shows the names."""
    model: Emulator = PRETRAINED[name].model
    return model


def find_run(thing: Any, data: Dataset | str | Path | None = None, **options: Any) -> Run:
    """The run that is meant, with other data if given, opened with `options` as by `fino.open`.

    `thing` is a Run, a model or any stepper, a run folder, a folder that fino.save wrote, or the
    name of a shipped model; a folder of that name comes first.
    """
    run = _find(thing)
    if data is None and options:
        raise ValueError(f"{', '.join(options)} would say how to read other data: pass --data.")
    return run if data is None else run.with_data(data, **options)


def _find(thing: Any) -> Run:
    if isinstance(thing, Run):
        return thing
    if isinstance(thing, str | Path):
        if not Path(thing).exists() and str(thing) in PRETRAINED:
            return PRETRAINED[str(thing)]
        return Run(thing)
    if callable(thing):
        return Run(model=thing)
    raise ValueError(
        "expected a run, a model or stepper, a run or model folder, or the name of a shipped "
        f"model, got {type(thing).__name__}."
    )


@wraps(inference_rollout)
def rollout(run: Any, *arguments: Any, **options: Any) -> Any:
    """fino.inference.rollout, for folders and names as well."""
    found = find_run(run) if isinstance(run, str | Path) else run
    return inference_rollout(found, *arguments, **options)


_NO_RUN = "`fino train` makes a run; `fino list pretrained` names the models that are shipped."


def _kind_of(folder: Path) -> str:
    """What lies there: a run, a bare model, or a shipped one."""
    if not folder.exists():
        near = did_you_mean(str(folder), list(PRETRAINED))
        hint = near if near.startswith("Did") else _NO_RUN
        raise ValueError(f"There is no run, model or shipped model '{folder}'. {hint}")
    if (folder / shipped.CARD).is_file():
        return "shipped"
    if (folder / "settings.json").is_file() or (folder / "model").is_dir():
        return "run"
    if (folder / "config.json").is_file():
        return "model"
    raise incomplete(folder, "it has no model")
