"""What an evaluation found, as numbers and as `scores.json`; `fino.report` has the sentences.

Everything that the same seed gives again stands outside of two blocks: `cost`, which was
measured on some machine, and `when`.  Numbers that are not finite (a rollout that blew up) are
written as null.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from fino.display import html_table
from fino.durable import plain, write_whole
from fino.metrics import METRICS, metric_named
from fino.metrics.pdebench import from_batches, of_batch
from fino.shapes import Trajectory

__all__ = ["Score", "Scores", "score"]

_FORMAT = "fino scores 2"
#: The first format said "floors" where the field says "baselines".
_OLD_FORMAT = "fino scores 1"


@dataclass(frozen=True)
class Score:
    """One number, the interval that other samples would have put it in, and each channel's."""

    value: float
    low: float | None = None
    high: float | None = None
    channels: dict[str, float] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    @property
    def short(self) -> str:
        """Three digits, or the word for a rollout that blew up."""
        return f"{self.value:.3g}" if math.isfinite(self.value) else "diverged"

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "diverged"
        if self.low is None or self.high is None:
            return f"{self.value:.4g}"
        return f"{self.value:.4g} ({self.low:.3g} – {self.high:.3g})"


@dataclass(frozen=True)
class Scores:
    """Every metric of a model and of its baselines on one part of the data.

        scores["nrmse"].value, scores.baselines["persistence"]["nrmse"], print(scores)

    model        name, settings of network, emulator and training, SHA-256 of the weights
    data         name, SHA-256, part, samples, frames shown and steps predicted
    over_time    rmse and nrmse at every step, of the model and of each baseline
    spectra      energy at each wavenumber of the last frame: truth, model, error
    verdict      by the metric that decides: the model's value, and for each baseline its value,
                 whether it is beaten, its value ÷ the model's (ratio), and the share of draws of
                 samples in which it is beaten (certainty); baselines that could not predict, with
                 the reason, are `skipped`
    diverged     rollouts that did not stay finite
    over_parameters    for each parameter that varies: its value and the model's nRMSE for every
                 sample, and the range that the training part spans
    trust        of a model with calibrated bands: the share of cells that each of them held, and
                 its mean width; how many starts were unlike the training data
    """

    model: dict[str, Any]
    data: dict[str, Any]
    metrics: dict[str, Score]
    baselines: dict[str, dict[str, Score]]
    over_time: dict[str, Any]
    spectra: dict[str, Any]
    verdict: dict[str, Any]
    diverged: int
    convention: str
    versions: dict[str, str]
    command: str = ""
    cost: dict[str, Any] = field(default_factory=dict)
    when: dict[str, Any] = field(default_factory=dict)
    over_parameters: dict[str, Any] = field(default_factory=dict)
    trust: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, metric: str) -> Score:
        if metric not in self.metrics:
            raise ValueError(
                f"These scores have no metric '{metric}'. They have {', '.join(self.metrics)}."
            )
        return self.metrics[metric]

    def without_place(self) -> Scores:
        """The same without the folders of one machine: data.air=/home/me/air.nc → data.air=air.nc.

        For scores that travel; names stay, so that the command can still be read.
        """
        command = re.sub(r"(?<![^\s='\"])/(?:[^\s/'\"]+/)*(?=[^\s/'\"])", "", self.command)
        return replace(self, data={**self.data, "path": None}, command=command)

    def best_baseline(self, metric: str) -> str | None:
        """The name of the baseline that does best by a metric; None where there is none."""
        sign = -1 if metric_named(metric).higher_is_better else 1
        known = {b: sign * s[metric].value for b, s in self.baselines.items() if metric in s}
        return min(known, key=lambda name: known[name]) if known else None

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Columns and rows: every metric with its interval, beside the best baseline."""
        columns = ["metric", self.model.get("name", "model"), "95 % interval", "best baseline", ""]
        rows = []
        for name in (n for n in METRICS if n in self.metrics):
            score = self.metrics[name]
            between = "–" if score.low is None else f"{score.low:.3g} – {score.high:.3g}"
            best = self.best_baseline(name)
            beside = [self.baselines[best][name].short, best] if best else ["–", ""]
            rows.append([name, score.short, between, *beside])
        return columns, rows

    def __str__(self) -> str:
        columns, rows = self.table()
        widths = [max(len(line[i]) for line in [columns, *rows]) for i in range(len(columns))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in [columns, *rows]
        )

    def _repr_html_(self) -> str:
        title = f"{self.model.get('name', 'model')} on {self.data['name']}"
        return html_table(title, *self.table())

    def _check(self) -> None:
        """KeyError or TypeError where scores of a file lack what tables and pages ask for."""
        tables = {f.name for f in fields(self) if str(f.type).startswith("dict")}
        if not all(isinstance(getattr(self, name), dict) for name in tables):
            raise TypeError
        for key in ("name", "sha256", "part", "samples", "shown", "steps"):
            self.data[key]
        if not isinstance(self.model["name"], str):
            raise TypeError
        words = ("machine", "baselines", "worth")
        for block in (self.cost, *self.cost.get("baselines", {}).values()):
            for key in block.keys() - set(words):
                _number(block[key])

    def to_json(self) -> str:
        content = {"format": _FORMAT, **plain(self)}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write scores.json, all of it or nothing."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.to_json().encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Scores:
        """Read scores.json, or the one in a run folder."""
        path = Path(path)
        path = path / "scores.json" if path.is_dir() else path
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(
                f"There are no scores at {path}. Run `fino evaluate {path.parent}` first."
            ) from None
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            raise ValueError(
                f"{path} is damaged: it is not JSON. Run `fino evaluate {path.parent}` again."
            ) from None
        form = content.pop("format", None) if isinstance(content, dict) else None
        if form not in (_FORMAT, _OLD_FORMAT):
            raise ValueError(f"{path} is not a file of scores as this fino writes them.")
        if form == _OLD_FORMAT:
            for block in (content, content.get("cost"), content.get("verdict")):
                if isinstance(block, dict) and "floors" in block:
                    block["baselines"] = block.pop("floors")
        try:
            metrics = _scores(content.pop("metrics"))
            baselines = {name: _scores(found) for name, found in content.pop("baselines").items()}
            verdict = content["verdict"]
            if "value" not in verdict:  # the first scores did not repeat it there
                verdict["value"] = metrics[verdict["metric"]].value
            for block in (verdict, *verdict["baselines"].values()):
                block["value"] = _number(block["value"])
            found = cls(metrics=metrics, baselines=baselines, **content)
            found._check()
            return found
        except (KeyError, TypeError, AttributeError):
            raise ValueError(
                f"{path} is damaged: parts are missing. Run `fino evaluate {path.parent}` again."
            ) from None


def score(
    name: str,
    prediction: Trajectory,
    truth: Trajectory,
    convention: str = "fino",
    batch: int | None = None,
    weights: Tensor | None = None,
) -> float:
    """One number for a whole test set, in our convention or in PDEBench's.

    `batch` matters only to PDEBench's convention, whose numbers depend on it.
    """
    if convention == "pdebench":
        if batch is None or batch < 1:
            raise ValueError("PDEBench's numbers depend on the batch size: say which, as batch=50.")
        pairs = zip(prediction.split(batch), truth.split(batch), strict=True)
        return from_batches([of_batch(name, *pair) for pair in pairs])
    if convention != "fino":
        raise ValueError(f"Unknown convention '{convention}'. Use 'fino' or 'pdebench'.")
    return float(metric_named(name)(prediction, truth, weights))


def _scores(content: dict[str, Any]) -> dict[str, Score]:
    return {
        name: Score(
            _number(entry["value"]),
            None if entry["low"] is None else _number(entry["low"]),
            None if entry["high"] is None else _number(entry["high"]),
            {key: _number(v) for key, v in entry["channels"].items()},
        )
        for name, entry in content.items()
    }


def _number(value: float | None) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError
    return math.inf if value is None else value
