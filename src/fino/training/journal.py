"""What happened, kept as lines of JSON and drawn as a curve."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from fino.durable import check_no_link, named, whole_file, write_whole
from fino.training.loop import Happened
from fino.training.settings import TrainingSettings

__all__ = ["Journal", "read_metrics"]

#: A line at least every so many steps, so that the curve has a shape between validations.
_EVERY = 50


#: What a row holds beside `improved`.
_COLUMNS = (
    *("step", "loss", "validation", "nrmse", "diverged", "lr", "horizon", "gradient", "share"),
    *("cpu_seconds", "wall_seconds"),
)


class Journal:
    """metrics.jsonl and loss.png of a run folder, and TensorBoard's files where asked for."""

    def __init__(self, folder: Path, settings: TrainingSettings, step: int) -> None:
        self.folder = folder
        self.path = folder / "metrics.jsonl"
        check_no_link(self.path)
        # Lines of steps that a crash undid would stand twice after they are done again.
        kept = [row for row in read_metrics(self.path) if row["step"] <= step]
        write_whole(self.path, "".join(json.dumps(row) + "\n" for row in kept).encode())
        self.board = _board(folder) if settings.tensorboard else None

    def add(self, happened: Happened) -> None:
        """A line where there is something to say."""
        if happened.validation is None and happened.step % _EVERY and happened.step != 1:
            return
        row = _row(happened)
        with named(self.path), self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if self.board is not None:
            for name in ("loss", "validation", "nrmse", "lr", "horizon"):
                if row[name] is not None:
                    self.board.add_scalar(name, row[name], happened.step)

    def close(self) -> None:
        """Draw the curve; once at the end of a sitting, because a picture costs many steps."""
        _draw_curve(read_metrics(self.path), self.folder / "loss.png")
        if self.board is not None:
            self.board.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Every row; a last line that a crash cut short is left out."""
    if not path.is_file():
        return []
    *lines, last = path.read_text(encoding="utf-8", errors="replace").split("\n")
    rows = [_read_row(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    with suppress(ValueError):
        rows += [_read_row(last, "")] if last.strip() else []
    return rows


def _read_row(line: str, where: str) -> dict[str, Any]:
    """One row: a whole number of steps, and numbers or nothing in the columns."""
    damaged = f"{where} is damaged: it should be a JSON object of numbers. Remove the line."
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(damaged) from None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise ValueError(damaged)
    row = {**dict.fromkeys(_COLUMNS), **row}
    if not all(isinstance(row[name], int | float | None) for name in _COLUMNS):
        raise ValueError(damaged)
    return row


def _draw_curve(rows: list[dict[str, Any]], path: Path) -> None:
    """Loss and validation error against CPU-seconds, on logarithmic scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    curves = {"loss": ("-", "training loss"), "nrmse": ("o-", "validation rollout nRMSE")}
    for name, (style, label) in curves.items():
        points = [(row["cpu_seconds"], row[name]) for row in rows if (row[name] or 0) > 0]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=label)
    axes.set(xlabel="CPU-seconds")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.set_yscale("log")
        axes.legend()
    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


def _row(happened: Happened) -> dict[str, Any]:
    validated = happened.validation
    return {
        "step": happened.step,
        "loss": happened.loss,
        "validation": _finite(validated.full) if validated else None,
        "nrmse": _finite(validated.nrmse) if validated else None,
        "diverged": validated.diverged if validated else None,
        "improved": happened.improved,
        "lr": happened.learning_rate,
        "horizon": happened.horizon,
        "gradient": happened.gradient,
        "share": happened.share,
        "cpu_seconds": happened.cpu_seconds,
        "wall_seconds": happened.wall_seconds,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard is not installed. Install it with `pip install tensorboard`, "
            "or leave train.tensorboard off; metrics.jsonl has the same numbers."
        ) from None
    return SummaryWriter(str(folder / "tensorboard"))
