"""fino: learned PDE solvers built like a finite-difference scheme.

The plan of the house, downstairs first; every room imports only from rooms below it.

    ground       grid · shapes · given · locality · streams · settings · machine
    metrics      how wrong a prediction is
    pde          the truth: problems and their solvers
    data         cards, files, splits, windows
    model        FINO, other published models, linear priors, baselines, rollout
    trust        what training saw, and rollouts that leave it
    export       a trained step outside of Python: ONNX, C, a page
    inference    fields larger than one device
    training     the loop, and the runs that it leaves
    evaluation   scores beside the baselines
    inspection   reach, stencils, stability
    report       sentences, tables, figures, pages
    recipe       an experiment in one file
    cli          the same from the command line
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

#: Where each name of the front door lives.  Nothing is imported before it is used.
_HOME = {
    "Grid": "grid",
    "Locality": "locality",
    "Fino": "model.fino",
    "BASELINES": "model.baselines",
    "METRICS": "metrics",
    "MODELS": "model",
    "PRETRAINED": "training.run",
    "PROBLEMS": "pde",
    "Run": "training.run",
    "baselines": "model.baselines:baselines_for",
    "build": "model.build",
    "calibrate": "training.fit",
    "estimate_error": "evaluation.estimate",
    "evaluate": "evaluation.evaluate",
    "find_run": "training.run",
    "fit": "training.fit",
    "from_array": "data.arrays",
    "generate": "data.generate",
    "inspect": "inspection.inspect",
    "load": "model.store",
    "longest_stride": "model.build",
    "open": "data.open",
    "pretrained": "training.run",
    "report": "report",
    "rollout": "training.run",
    "save": "model.store",
    "spot_check": "evaluation.spot",
    "update": "inference.rollout",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "report":  # the room itself can be called
        return import_module("fino.report")
    if name in _HOME:
        module, _, inner = _HOME[name].partition(":")
        return getattr(import_module(f"fino.{module}"), inner or name)
    raise AttributeError(f"module 'fino' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
