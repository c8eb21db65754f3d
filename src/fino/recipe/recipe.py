"""A recipe says everything about an experiment in one TOML file.

    title = "FINO and FNO on a travelling wave"
    extends = "laptop-advection"   another recipe to begin from, by name or path
    models = ["fino", "fno"]       the first is reported in full, the others beside it
    seeds = [0, 1, 2]              the whole experiment for each
    jobs = 2                       train so many at a time, on a core each

    [data]                         problem = "advection", or file = "my.h5", or air and pressure
    [data.settings]                the problem's own settings, such as beta
    [model]                        settings of every model; [model.fno] of one alone
    [train]                        the same for training; scheme = "paper" begins from the paper's
    [sweep]                        "model.blocks" = [1, 2, 3, 4]

All keys are optional: a file with only [model] and [train] is a recipe, too.  On the command line
the same keys are written --set model.width=48.  A key that does not exist is refused with the
nearest one that does.  A recipe that comes with the package goes by its name, any other by its
path.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from fino.pde import find_problem
from fino.settings import Settings, did_you_mean

__all__ = [
    "DataChoice",
    "Recipe",
    "change_tables",
    "check_keys",
    "find_recipes",
    "parse_recipe",
    "read_recipe",
    "set_key",
]

Tables = dict[str, Any]

#: Keys of [data] that name files, relative to the recipe's own folder.
_PLACES = ("file", "air", "pressure")
_SOURCES = ("problem", *_PLACES)
_TABLES = ("data", "model", "train", "sweep")
#: Settings of [train] that limit how long it takes.
_BUDGETS = ("minutes", "cpu_seconds", "steps", "epochs")
#: What a recipe begins from; `base` stands in older files.
_EXTENDS = ("extends", "base")


class DataChoice(Settings):
    """Where the data come from: a problem to solve, a file, or the two kinds of weather maps.

    problem, samples, seed, initial, refine,
    settings                                     as `fino generate` takes them; 200 samples for a
                                                 first look, 1000 for a result
    file                                         any file that `fino.open` reads
    reading                                      what the file does not say, and how to cut it: the
                                                 options of `fino.open`, as [data.reading] or
                                                 --set data.reading.dt=0.01
    air, pressure                                NetCDF files, folders or patterns such as
                                                 "air.sig995.*.nc"
    stride_space, stride_time                    keep every n-th cell and frame
    split                                        another rule of splitting than the file's own
    train                                        learn from so many trajectories of the training
                                                 part and leave the others unseen
    history                                      how many frames are shown before the prediction
                                                 is scored
    """

    problem: str | None = None
    file: str | None = None
    reading: dict[str, Any] = Field(default_factory=dict)
    air: str | tuple[str, ...] | None = None
    pressure: str | tuple[str, ...] | None = None
    samples: int | None = Field(None, ge=3)
    seed: int = 0
    initial: str = "ours"
    settings: dict[str, Any] = Field(default_factory=dict)
    refine: int | None = Field(None, ge=1)
    stride_space: int = Field(1, ge=1)
    stride_time: int = Field(1, ge=1)
    split: str | None = None
    train: int | None = Field(None, ge=1)
    history: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _is_one_source(self) -> DataChoice:
        if (self.air is None) != (self.pressure is None):
            raise ValueError("data.air and data.pressure should be given together.")
        sources = [name for name in ("problem", "file", "air") if getattr(self, name)]
        if len(sources) > 1:
            raise ValueError(f"[data] should have one source, got {' and '.join(sources)}.")
        if self.problem is not None:
            _check_problem(self)
        return self

    @property
    def is_given(self) -> bool:
        return any((self.problem, self.file, self.air))


def _check_problem(choice: DataChoice) -> None:
    kind = find_problem(str(choice.problem))
    if choice.samples is None:
        raise ValueError("data.samples should say how many trajectories to make.")
    initial = {"initial": choice.initial} if "initial" in kind.model_fields else {}
    kind(**{**initial, **choice.settings})


class Recipe(Settings):
    """An experiment: data, models, training, seeds, and what is varied."""

    name: str = ""
    title: str = ""
    models: tuple[str, ...] = ("fino", "fno")
    seeds: tuple[int, ...] = (0,)
    jobs: int = Field(1, ge=1)
    data: DataChoice = Field(default_factory=lambda: DataChoice(**{}))
    model: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)

    @field_validator("models", "seeds")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...], info: Any) -> tuple[Any, ...]:
        if not values or len(set(values)) < len(values):
            raise ValueError(f"{info.field_name} should be a list, each once, got {list(values)}.")
        return values

    @property
    def where(self) -> str:
        """The recipe in an error message."""
        return f"in recipe {self.name}" if self.name else ""


def find_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = Path(__file__).parent / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_recipe(
    name_or_path: str | Path | None,
    changes: Iterable[str] = (),
    *,
    budget: Mapping[str, Any] | None = None,
    **tables: Any,
) -> Recipe:
    """A recipe by name or from a file; `changes` such as "data.samples=50" have the last word.

    `tables` replace whole parts of it, as data={"file": "my.h5"} or models=["fino"].  A `budget`,
    as {"minutes": 5}, or one in the changes, as "train.cpu_seconds=60", replaces that of the
    recipe.  None for a name is a recipe that says nothing.
    """
    changes = list(changes)
    asked = change_tables({}, changes)
    extends = asked.get("extends", asked.get("base"))
    if name_or_path is not None:
        name, content = _read_tables(name_or_path, extends)
    else:
        name, content = "", {} if extends is None else _read_tables(extends)[1]
    own = content.get("data", {})
    if "data" in tables and own and not any(own.get(source) for source in _SOURCES):
        # A recipe that leaves the data to be given may say how to read them.
        reading = {**own.get("reading", {}), **tables["data"].get("reading", {})}
        tables["data"] = {**tables["data"], "reading": reading}
    content |= tables
    limits = {key: value for key, value in (budget or {}).items() if value is not None}
    said = asked.get("train", {})
    if limits or (isinstance(said, dict) and any(said.get(key) is not None for key in _BUDGETS)):
        kept = {k: v for k, v in content.get("train", {}).items() if k not in _BUDGETS}
        content["train"] = {**kept, **limits}
    return parse_recipe(name, change_tables(content, changes))


def parse_recipe(name: str, tables: Tables) -> Recipe:
    """The recipe that some tables describe, refused if a key is unknown."""
    where = f"in recipe {name}" if name else ""
    _check_tables(tables, where)
    values = {key: value for key, value in tables.items() if key not in (*_EXTENDS, "data")}
    data = tables.get("data", {})
    check_keys(data, list(DataChoice.model_fields), "data", where)
    if "seed" in values.get("train", {}) and "seeds" not in values:
        values["train"] = dict(values["train"])
        values["seeds"] = [values["train"].pop("seed")]
    return Recipe(name=name, data=DataChoice(**data), **values)


def change_tables(
    tables: Tables, changes: Iterable[str], example: str = "data.samples=50"
) -> Tables:
    """("data.samples=50", "model.fino.width=8") on top of some tables."""
    changed: Tables = json.loads(json.dumps(tables))
    for word in changes:
        key, equals, text = (part.strip() for part in word.partition("="))
        if not equals or not key:
            raise ValueError(f"--set should be NAME=VALUE, such as {example}, got '{word}'.")
        set_key(changed, key, _parse_value(key, text))
    return changed


def set_key(tables: Tables, key: str, value: Any) -> None:
    """Set tables["a"]["b"] = value for the key "a.b"; the keys of a sweep have dots themselves."""
    table, _, rest = key.partition(".")
    *path, last = (table, rest) if table == "sweep" and rest else key.split(".")
    for part in path:
        tables = tables.setdefault(part, {})
        if not isinstance(tables, dict):
            raise ValueError(f"'{key}' cannot be set: '{part}' is not a table.")
    tables[last] = value


def check_keys(keys: Iterable[str], known: Sequence[str], table: str, where: str) -> None:
    """Refuse a key that does not exist, with the nearest one that does."""
    for key in keys:
        if key not in known:
            word = f"{table}.{key}" if table else key
            message = " ".join(filter(None, (f"Unknown key '{word}'", where)))
            hint = "Use seeds = […]." if word == "train.seed" else did_you_mean(key, list(known))
            raise ValueError(f"{message}. {hint}")


def _check_tables(tables: Tables, where: str) -> None:
    keys = ["extends", *(name for name in Recipe.model_fields if name != "name")]
    check_keys((key for key in tables if key != "base"), keys, "", where)
    for name in _TABLES:
        if not isinstance(tables.get(name, {}), dict):
            raise ValueError(f"'{name}' {where} should be a table: [{name}].")


def _parse_value(key: str, text: str) -> Any:
    """48, 1e-3, true, ["fino"] or plain words; `none` is nothing, but for norms of networks."""
    if text.lower() == "none" and not key.endswith(".norm"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_tables(
    name_or_path: str | Path, extends: str | None = None, above: tuple[Path, ...] = ()
) -> tuple[str, Tables]:
    """The name and the tables of a recipe, on top of those of the recipe that it extends.

    `above` are the recipes that extend it.
    """
    path = _find_recipe(name_or_path)
    if path.resolve() in above:
        raise ValueError(f"{path} extends itself. Take out one `extends`.")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}.") from None
    _check_tables(content, f"in {path.name}")
    _check_values(content, "", path)
    _place_files(content.get("data", {}), path.parent)
    own = [str(content.pop(key)) for key in _EXTENDS if key in content]
    below = extends or next(iter(own), None)
    if below is not None:
        beside = path.parent / below
        is_file = beside.suffix == ".toml" and beside.is_file()
        other = beside if is_file else below
        content = _merge(_read_tables(other, above=(*above, path.resolve()))[1], content)
    return path.stem, content


def _check_values(value: Any, key: str, path: Path) -> None:
    """Refuse what TOML can say and no setting means: dates, times, numbers that are not finite."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
            _check_values(item, f"{key}.{name}" if key else str(name), path)
    elif not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise ValueError(f"'{key}' in {path.name} is a {kind}, and no setting is one: {value}.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"'{key}' in {path.name} should be a finite number, got {value}.")


def _find_recipe(name_or_path: str | Path) -> Path:
    known = find_recipes()
    if str(name_or_path) in known:
        return known[str(name_or_path)]
    path = Path(name_or_path)
    if path.suffix == ".toml":
        if not path.is_file():
            raise FileNotFoundError(f"There is no recipe file {path}.")
        return path
    if path.is_file():
        raise ValueError(f"{path} is not a recipe. For a data file: fino run --data {path}")
    raise ValueError(
        f"Unknown recipe '{name_or_path}'. {did_you_mean(str(name_or_path), [*known])}"
    )


def _place_files(data: Tables, folder: Path) -> None:
    """Make file names relative to the recipe's folder absolute."""
    for key in _PLACES:
        if isinstance(data.get(key), str):
            data[key] = str(folder / data[key])
        elif isinstance(data.get(key), Sequence):
            data[key] = [str(folder / str(place)) for place in data[key]]


def _merge(below: Tables, content: Tables) -> Tables:
    """Tables are joined key by key, everything else is replaced; another source replaces [data]."""
    merged = dict(below)
    for key, value in content.items():
        renewed = key == "data" and any(source in value for source in _SOURCES)
        if isinstance(value, dict) and isinstance(below.get(key), dict) and not renewed:
            merged[key] = _merge(below[key], value)
        else:
            merged[key] = value
    return merged
