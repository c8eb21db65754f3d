"""Everything that can be set about a training run, with the values that did best in our search.

The paper's own scheme is one of them: `TrainingSettings.paper()` unrolls the whole trajectory
from its first frame and sums squared errors as equation 14 has it.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from fino.settings import Settings

__all__ = ["VALIDATIONS", "VALIDATION_SAMPLES", "VALIDATION_SHARE", "TrainingSettings"]

#: How often a model is validated, and by how many rollouts, where their cost does not matter.
VALIDATIONS = 10
VALIDATION_SAMPLES = 16
#: The share of a budget of time that validation may take.
VALIDATION_SHARE = 0.1

_USUAL: dict[str, dict[str, Any]] = {
    "soap": {"learning_rate": 1e-2, "momentum": (0.95, 0.95)},
    "muon": {"learning_rate": 3e-3, "momentum": (0.9, 0.99)},
    "adamw": {"learning_rate": 3e-3, "momentum": (0.9, 0.99)},
    "adam": {"learning_rate": 1e-3, "momentum": (0.9, 0.999)},
}


class TrainingSettings(Settings):
    """How a model is trained.  What is None is chosen from the data and reported.

    Budget: the first to run out ends the run, and the schedules stretch over it.
        minutes, cpu_seconds    wall clock, or processor time of all threads; 1 to 20 minutes
        steps, epochs           optimiser steps, or passes over the train part; repeatable

    What a step looks at:
        seed                    order of samples, noise, symmetries and first weights
        batch                   trajectories a step; 2 to 64, small ones with many steps did best
        windows                 stretches from `random` times, or the `first` frames only
        horizon                 the longest unroll in frames, None for the whole trajectory; 4 to 8
        grow_from               share of the budget trained on one step, before horizons grow; 0.6
        gradient                through the `full` unroll, `truncated`, or `pushforward`: only
                                the last frames
        truncate                frames a gradient goes back, for the latter two
        recompute               trade time for memory in long unrolls
        loss                    `fields` weighs channels as nRMSE does, `scaled` by the size of
                                the residual, `root` for heavy-tailed errors; `absolute` blurs
                                less where the future is uncertain, in `sobolev` differences of
                                neighbours count as well; `paper` is eq. 14
        noise                   on the history, in units of the fields' spread; 0 to 0.01
        crop                    cells of a piece of the domain to train on, exact for local models
        halo                    whether a crop comes with the cells around it that make its loss
                                exact; without, its edge is taken for the edge of the mask, which
                                costs less where rollouts are long
        augment                 use the symmetries that the data's card declares

    The optimiser:
        optimizer               `soap`, `adamw`, `adam`, `muon`
        learning_rate, momentum each optimiser has its own; 1e-2 (3e-3 in the plane for wide
                                networks) and (0.95, 0.95) with SOAP
        weight_decay            0
        schedule, warmup        `cosine`, `one-cycle`, `step`, `constant`; warm-up as a share
        clip                    largest norm of the gradient; 1
        average                 decay of a running average of the weights; 0 is none, or 0.999

    Which weights are kept:
        choose_by               smallest `nrmse` of validation rollouts, or `full`: smallest sum
                                of squares (eq. 15), which the few hardest trajectories decide
        validations             how often; by default within a tenth of a budget of time
        validation_samples      by how many rollouts; by default the same
        validation_share        the share of a budget of time after which only the last one
                                happens; 0.1, or 1 if you say how often and by how many
        patience                end after so many validations without a better one
        checkpoint_seconds      between two checkpoints; 20

    The machine:
        device                  `cpu`, or `cuda`
        threads                 of torch on the CPU; by default those that a step is fastest with,
                                1 for a budget of cpu_seconds, torch's own for one of steps
        mixed, compile          bfloat16 on CUDA; torch.compile of the step
        tensorboard             also write TensorBoard's files
    """

    seed: int = 0

    minutes: float | None = Field(None, gt=0)
    cpu_seconds: float | None = Field(None, gt=0)
    steps: int | None = Field(None, ge=1)
    epochs: int | None = Field(None, ge=1)

    batch: int | None = Field(None, ge=1)
    windows: Literal["random", "first"] = "random"
    horizon: int | None = Field(4, ge=1)
    grow_from: float = Field(0.6, ge=0, le=1)
    gradient: Literal["full", "truncated", "pushforward"] = "full"
    truncate: int = Field(1, ge=1)
    recompute: bool = False
    loss: Literal["fields", "scaled", "root", "absolute", "sobolev", "paper"] = "fields"
    noise: float = Field(0.0, ge=0)
    crop: int | tuple[int, ...] | None = None
    halo: bool = True
    augment: bool = True

    optimizer: Literal["soap", "adamw", "adam", "muon"] = "soap"
    learning_rate: float = Field(gt=0)
    weight_decay: float = Field(0.0, ge=0)
    momentum: tuple[float, float]
    schedule: Literal["cosine", "one-cycle", "step", "constant"] = "cosine"
    warmup: float = Field(0.02, ge=0, lt=1)
    clip: float | None = Field(1.0, gt=0)
    average: float = Field(0.0, ge=0, lt=1)

    choose_by: Literal["nrmse", "full"] = "nrmse"
    validations: int | None = Field(None, ge=1)
    validation_samples: int | None = Field(None, ge=1)
    validation_share: float | None = Field(None, gt=0, le=1)
    patience: int | None = Field(None, ge=1)
    checkpoint_seconds: float = Field(20.0, ge=0)

    device: str = "cpu"
    threads: int | None = Field(None, ge=1, le=1024)
    mixed: bool = False
    compile: bool = False
    tensorboard: bool = False

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Each optimiser has a rate and momenta that suit it."""
        usual = _USUAL.get(values.get("optimizer", "soap"), _USUAL["soap"])
        given = {name: value for name, value in values.items() if value is not None}
        return {**values, **{name: given.get(name, usual[name]) for name in usual}}

    @model_validator(mode="after")
    def _fits_together(self) -> TrainingSettings:
        if not all(0 <= beta < 1 for beta in self.momentum):
            raise ValueError(f"momentum should be two numbers in [0, 1), got {self.momentum}.")
        if self.mixed and self.device == "cpu":
            raise ValueError(
                "mixed precision on the CPU may stop with an illegal instruction on machines "
                "that claim bfloat16. Use device='cuda', or leave mixed off."
            )
        if self.gradient == "pushforward" and self.horizon == 1:
            raise ValueError("pushforward needs a horizon of 2 or more: horizon=1 has no past.")
        return self

    @classmethod
    def paper(cls, **changes: Any) -> TrainingSettings:
        """Equation 14 through the whole trajectory, with PDEBench's optimiser and schedule."""
        scheme: dict[str, Any] = {
            "epochs": 400,
            "batch": 50,
            "windows": "first",
            "horizon": None,
            "grow_from": 0.0,
            "loss": "paper",
            "augment": False,
            "optimizer": "adam",
            "weight_decay": 1e-4,
            "schedule": "step",
            "warmup": 0.0,
            "clip": None,
            "choose_by": "full",
        }
        return cls(**{**scheme, **changes})

    @property
    def has_budget(self) -> bool:
        return any((self.minutes, self.cpu_seconds, self.steps, self.epochs))
