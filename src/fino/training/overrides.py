"""Settings from the command line and from recipe files, in the same words.

    --model.width 48 --train.learning-rate 1e-3

    [model]                  [train]
    width = 48               learning_rate = 1e-3

A key that does not exist is refused with the nearest one that does.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fino.settings import did_you_mean
from fino.training.settings import TrainingSettings

__all__ = ["check_train_keys", "merged", "parse_overrides", "read_tables"]

TABLES = ("model", "train")

Tables = dict[str, dict[str, Any]]


def parse_overrides(words: Sequence[str]) -> Tables:
    """['--model.width', '48', '--train.batch=8'] → {'model': {'width': 48}, 'train': {…}}."""
    tables: Tables = {name: {} for name in TABLES}
    words = list(words)
    while words:
        option, equals, text = words.pop(0).partition("=")
        table, dot, key = option.removeprefix("--").partition(".")
        if not option.startswith("--") or not dot or table not in TABLES:
            raise ValueError(
                f"Unknown option '{option}'. Settings are written --model.NAME VALUE or "
                "--train.NAME VALUE; `fino train --help` lists the others."
            )
        if not equals:
            if not words:
                raise ValueError(f"{option} needs a value, such as {option} 1.")
            text = words.pop(0)
        tables[table][key.replace("-", "_")] = _value(text)
    check_train_keys(tables["train"], "on the command line")
    return tables


def read_tables(path: str | Path) -> Tables:
    """The [model] and [train] tables of a TOML file."""
    try:
        content = tomllib.loads(Path(path).read_text())
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}.") from None
    for name, table in content.items():
        if name not in TABLES:
            raise ValueError(f"Unknown table '{name}' in {path}. {did_you_mean(name, TABLES)}")
        if not isinstance(table, dict):
            raise ValueError(f"'{name}' in {path} should be a table: [{name}].")
    tables = {name: dict(content.get(name, {})) for name in TABLES}
    check_train_keys(tables["train"], f"in {path}")
    return tables


def check_train_keys(table: dict[str, Any], where: str) -> None:
    """Refuse a training setting that does not exist, with the one that was meant."""
    known = list(TrainingSettings.model_fields)
    for key in table:
        if key not in known:
            raise ValueError(f"Unknown key 'train.{key}' {where}. {did_you_mean(key, known)}")


def merged(first: Tables, then: Tables) -> Tables:
    """Both, the second having the last word."""
    return {name: {**first[name], **then[name]} for name in TABLES}


def _value(text: str) -> Any:
    """48, 1e-3, true, [1, 2] or plain words; `none` is nothing."""
    if text.lower() == "none":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
