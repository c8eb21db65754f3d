"""`python -m lab trust`: bands and guards for the models that come with the package.

Their data are not shipped but solved again: some of the training part, to know what training saw,
and the validation part over several times the length of the training data, so that bands are
calibrated far past its end.  What is found is written beside the weights, as trust.json.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fino.cli.console import progress, say, say_json
from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames
from fino.data.split import Split
from fino.model.pretrained import plan_again, solve_samples
from fino.model.store import save
from fino.training.run import PRETRAINED
from fino.trust.bands import calibrate
from lab.bench_horizon import solve_longer

__all__ = ["trust"]

Progress = Callable[[float], None]


def trust(
    *names: str, learned: int = 256, validated: int = 128, times: int = 5, json: bool = False
) -> None:
    """Calibrate shipped models: `python -m lab trust advection`.

    Parameters
    ----------
    names
        Pretrained models of data that move; all of them if none is named.
    learned
        Training trajectories that are solved again.
    validated
        Validation trajectories at the most.
    times
        How many times as long as the data of the training bands are calibrated for.
    json
        Print what was found as JSON.
    """
    moving = [name for name in PRETRAINED if not PRETRAINED[name].data_card.steady]
    found = {}
    for name in names or moving:
        run = PRETRAINED[name]
        with progress(name, quiet=json) as show:
            short, long = _solve(run.data_card, learned, validated, times, show)
            model = run.model
            model.trust = calibrate(model, short, long=long)
        assert run.folder is not None
        save(model, run.folder, overwrite=True)
        bands = model.trust["bands"]
        found[name] = {"trajectories": bands["trajectories"], "follows": bands["activity"]}
        if not json:
            follows = f"their width follows: {bands['activity']}"
            say(f"{name}: bands from {bands['trajectories']} trajectories, {follows}.")
    if json:
        say_json(found)


def _solve(
    card: Card, learned: int, validated: int, times: int, show: Progress
) -> tuple[Dataset, Dataset]:
    """Some training and validation trajectories, and the latter over a longer time."""
    assert card.split is not None
    train = card.split.samples("train")[:learned]
    short = solve_samples(plan_again(card), train, lambda share: show(0.3 * share))
    long = solve_longer(card, times, validated, lambda s: show(0.3 + 0.7 * s), "validation")
    frames = short.frames
    both = np.concatenate([short.read(range(len(train))), long.read(range(len(long)), 0, frames)])
    split = Split.of(
        "solved again", train=range(len(train)), validation=range(len(train), len(both))
    )
    joined = short.card.changed(samples=len(both), split=split)
    ahead = long.with_split(Split.of("solved again", validation=range(len(long))))
    return Dataset(joined, ArrayFrames(both)), ahead
