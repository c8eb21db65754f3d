"""A recipe spelt out: one case for each value of what is varied, each model and each seed.

    [sweep]
    "model.blocks" = [1, 2, 3, 4]        →  fino-blocks-1, fino-blocks-2, …
    "data.train" = [50, 100]             →  every axis with every other

An axis that does not concern a model, such as "model.fino.gate" for FNO, does not repeat it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from fino.recipe.recipe import DataChoice, Recipe, made, put
from fino.settings import did_you_mean
from fino.training.settings import TrainingSettings

__all__ = ["Case", "cases"]

#: What a recipe's [model] may not say, because it follows from elsewhere.
_NOT_SET = ("dims", "inputs", "outputs", "boundary", "seed", "data")
_TABLES = ("data", "model", "train")


@dataclass(frozen=True)
class Case:
    """One training run: what is built, on which data, how it is trained, and what is varied."""

    name: str
    model: str
    seed: int
    data: DataChoice
    build: dict[str, Any]
    train: dict[str, Any]
    varied: dict[str, Any]


def cases(recipe: Recipe) -> tuple[Case, ...]:
    """Every case of a recipe, each checked, in the order in which they are run."""
    found: dict[str, Case] = {}
    for varied in _variations(recipe):
        one = _varied(recipe, varied)
        for row, seed in product(recipe.models, recipe.seeds):
            case = _case(one, row, seed, varied, many_seeds=len(recipe.seeds) > 1)
            found.setdefault(_content(case), case)
    names = [case.name for case in found.values()]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two cases of {recipe.name} would both be called '{name}'.")
    return tuple(found.values())


def _variations(recipe: Recipe) -> Iterator[dict[str, Any]]:
    for key, values in recipe.sweep.items():
        table, dot, _ = key.partition(".")
        if not dot or table not in _TABLES:
            raise ValueError(
                f"A sweep varies data.…, model.… or train.…, such as \"model.blocks\", got '{key}'."
            )
        if not values:
            raise ValueError(f"The sweep of {key} should have at least one value.")
    for values in product(*recipe.sweep.values()):
        yield dict(zip(recipe.sweep, values, strict=True))


def _varied(recipe: Recipe, varied: dict[str, Any]) -> Recipe:
    """The recipe with the varied settings in their places."""
    if not varied:
        return recipe
    content = recipe.model_dump(mode="json", exclude_unset=True)
    content.pop("name"), content.pop("sweep")
    for key, value in varied.items():
        put(content, key, value)
    return made(recipe.name, content)


def _case(recipe: Recipe, row: str, seed: int, varied: dict[str, Any], many_seeds: bool) -> Case:
    build = _for_row(recipe.model, row, recipe.models)
    train = _for_row(recipe.train, row, recipe.models)
    kind = build.pop("name", row)
    _check_build(kind, build, recipe.name)
    train = _schemed(train, recipe.name)
    own = {key: value for key, value in varied.items() if _concerns(key, row, recipe.models)}
    words = [row, *(f"{key.rpartition('.')[2]}-{_word(value)}" for key, value in own.items())]
    words += [f"seed-{seed}"] if many_seeds else []
    return Case(
        name="-".join(words),
        model=kind,
        seed=seed,
        data=recipe.data,
        build=build,
        train={**train, "seed": seed},
        varied=own,
    )


def _for_row(table: dict[str, Any], row: str, rows: tuple[str, ...]) -> dict[str, Any]:
    """What a table says for one model: what it says for all, then what it says for that one."""
    from fino.model import MODELS

    named = {*rows, *MODELS}
    shared = {k: v for k, v in table.items() if not (k in named and isinstance(v, dict))}
    own = table.get(row, {})
    return {**shared, **own} if isinstance(own, dict) else shared


def _concerns(key: str, row: str, rows: tuple[str, ...]) -> bool:
    table, name, *_ = key.split(".")
    return table == "data" or name not in rows or name == row


def _check_build(kind: str, build: dict[str, Any], where: str) -> None:
    """Refuse a setting that neither the model nor its building knows."""
    from fino.model import MODELS
    from fino.model.build import build as build_model

    network = MODELS[kind](dims=1, inputs=1, outputs=1)
    shared = [
        n for n, p in inspect.signature(build_model).parameters.items() if p.kind != p.VAR_KEYWORD
    ]
    known = [n for n in (*shared, *type(network.settings).model_fields) if n not in _NOT_SET]
    for key in build:
        if key not in known:
            raise ValueError(
                f"Unknown key 'model.{key}' in recipe {where} for model {kind}. "
                f"{did_you_mean(key, known)}"
            )


def _schemed(train: dict[str, Any], where: str) -> dict[str, Any]:
    """Training settings, checked; `scheme` says what they are changes of, ours or the paper's."""
    known = ["scheme", *(name for name in TrainingSettings.model_fields if name != "seed")]
    for key in train:
        if key not in known:
            hint = "Use seeds = […]." if key == "seed" else did_you_mean(key, known)
            raise ValueError(f"Unknown key 'train.{key}' in recipe {where}. {hint}")
    changes = {key: value for key, value in train.items() if key != "scheme"}
    scheme = train.get("scheme", "ours")
    if scheme not in ("ours", "paper"):
        raise ValueError(f"train.scheme should be 'ours' or 'paper', got '{scheme}'.")
    if scheme == "paper":
        return TrainingSettings.paper(**changes).model_dump(mode="json", exclude_unset=True)
    TrainingSettings(**changes)
    return changes


def _content(case: Case) -> str:
    """Everything that makes a case what it is, without its name."""
    parts = [case.model, case.seed, case.data.model_dump(mode="json"), case.build, case.train]
    return json.dumps(parts, sort_keys=True)


def _word(value: Any) -> str:
    """A value as part of a folder's name: 0.001, true, 1-2, learn."""
    text = "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower() or "none"
