"""One of two processes of the tests of training in parallel: python ranks.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from little_data import little_fino, pushed, waves
from safetensors.torch import save_file

import fino
from fino.data.dataset import Dataset
from fino.training.batch import draw_batch
from fino.training.loss import Unroll
from fino.training.processes import Processes, join_processes
from fino.training.settings import TrainingSettings

SETTINGS = TrainingSettings(
    steps=20, batch=4, validations=4, validation_samples=1, horizon=3, noise=0.05, grow_from=0.3
)
#: What the networks add to; upon these twenty steps do not amplify the rounding of sums.
PRIORS = {"pushed": "stencil", "run": None}


def first_gradient(processes: Processes, data: Dataset | None = None) -> dict[str, torch.Tensor]:
    """The gradient of the first batch, averaged over the processes."""
    data = waves() if data is None else data
    model = little_fino(data)
    batch = draw_batch(data.train, model, SETTINGS, 0, 4, processes.rows(4))
    Unroll(model, SETTINGS)(batch.given, batch.future).backward()
    processes.average_gradients(model)
    return {name: p.grad for name, p in model.named_parameters()}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with join_processes() as processes:
        gradient = first_gradient(processes)
        if processes.is_first:
            save_file(gradient, folder / "gradient.safetensors")
        gradient = first_gradient(processes, pushed())
        if processes.is_first:
            save_file(gradient, folder / "conditions.safetensors")
        for name, data in (("pushed", pushed), ("run", waves)):
            model = little_fino(data(), predict=PRIORS[name])
            fino.fit(model, data(), out=folder / name, **SETTINGS.model_dump())
        everything = SETTINGS.model_dump() | {"windows": "first"}
        try:
            fino.fit(little_fino(waves()), spoilt(), out=folder / "spoilt", **everything)
        except ValueError as error:
            print(error)


def spoilt():
    from dataclasses import replace

    from fino.data.frames import ArrayFrames

    data = waves()
    numbers = data.read(range(len(data))).numpy().copy()
    numbers[data.train.samples[3], data.history] = float("nan")  # the first frame to predict
    return replace(data, source=ArrayFrames(numbers), recorded_hash="-")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
