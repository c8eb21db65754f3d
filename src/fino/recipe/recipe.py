"""A recipe says everything about an experiment in one TOML file.

    title = "FINO and FNO on a travelling wave"
    base = "laptop-advection"      another recipe to begin from
    models = ["fino", "fno"]       the first is reported in full, the others beside it
    seeds = [0, 1, 2]
    jobs = 2                       train so many at a time, on a core each

    [data]                         problem = "advection", or file = "my.h5", or air and pressure
    [data.settings]                the problem's own settings, such as beta
    [model]                        settings of every model; [model.fno] of one alone
    [train]                        the same for training; scheme = "paper" begins from the paper's
    [sweep]                        "model.blocks" = [1, 2, 3, 4]

A key that does not exist is refused with the nearest one that does.  A recipe that comes with
the package goes by its name, any other by its path.
"""

from __future__ import annotations

import json
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
    "changed_tables",
    "made",
    "other_base",
    "put",
    "read_recipe",
    "read_tables",
    "shipped",
]

Tables = dict[str, Any]

#: Keys of [data] that name files, relative to the recipe's own folder.
_PLACES = ("file", "air", "pressure")
_SOURCES = ("problem", *_PLACES)


class DataChoice(Settings):
    """Where the data come from: a problem to solve, a file, or the two kinds of weather maps.

    `air` and `pressure` are NetCDF files, folders or patterns such as "air.sig995.*.nc".
    `train` learns from so many trajectories of the training part and leaves the others unseen;
    `history` is how many frames are shown before a model is judged.
    """

    problem: str | None = None
    file: str | None = None
    air: str | tuple[str, ...] | None = None
    pressure: str | tuple[str, ...] | None = None
    samples: int | None = Field(None, ge=3)
    seed: int = 0
    initial: str = "ours"
    settings: dict[str, Any] = Field(default_factory=dict)
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

    name: str
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


#: Every key that a recipe may have outside of tables whose keys depend on problem and model.
_KEYS = {
    "": ["title", "base", *(name for name in Recipe.model_fields if name != "name")],
    "data": list(DataChoice.model_fields),
}


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = Path(__file__).parent / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def read_recipe(name_or_path: str | Path, changes: Iterable[str] = (), **tables: Any) -> Recipe:
    """A recipe by name or from a file; `changes` such as "data.samples=50" have the last word.

    `tables` replace whole parts of it: data={"file": "my.h5"}, models=["fino"].
    """
    changes = list(changes)
    name, content = read_tables(name_or_path, other_base(changes))
    return made(name, changed_tables({**content, **tables}, changes))


def made(name: str, content: Tables) -> Recipe:
    """The recipe that some tables describe, refused if a key is unknown."""
    _check_keys(content, "", f"in recipe {name}")
    data = content.get("data", {})
    _check_keys(data, "data", f"in recipe {name}")
    values = {key: value for key, value in content.items() if key not in ("base", "data")}
    return Recipe(name=name, data=DataChoice(**data), **values)


def other_base(changes: list[str]) -> str | None:
    """Take "base=NAME" out of the changes: it says what the others are changes of."""
    found = [word for word in changes if word.partition("=")[0].strip() == "base"]
    for word in found:
        changes.remove(word)
    return found[-1].partition("=")[2] if found else None


def read_tables(name_or_path: str | Path, base: str | None = None) -> tuple[str, Tables]:
    """The name and the tables of a recipe, together with those of its base or another one."""
    path = _found(name_or_path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}.") from None
    _check_keys(content, "", f"in {path.name}")
    for name in ("data", "model", "train", "sweep"):
        if not isinstance(content.get(name, {}), dict):
            raise ValueError(f"'{name}' in {path.name} should be a table: [{name}].")
    _place_files(content.get("data", {}), path.parent)
    own = content.pop("base", None)
    below = own if base is None else base
    if below is not None:
        _, tables = read_tables(_beside(below, path.parent))
        content = _on_top(tables, content)
    return path.stem, content


def _beside(base: Any, folder: Path) -> str | Path:
    """A base by name, or by its path beside the recipe that names it."""
    path = folder / str(base)
    return path if path.suffix == ".toml" and path.is_file() else str(base)


def changed_tables(content: Tables, changes: Iterable[str]) -> Tables:
    """("data.samples=50", "model.fino.width=8") on top of a recipe's tables."""
    content = json.loads(json.dumps(content))
    for word in changes:
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--set should be NAME=VALUE, such as data.samples=50, got '{word}'.")
        put(content, key.strip(), _value(key.strip(), text))
    return content


def put(content: Tables, key: str, value: Any) -> None:
    """Set content["a"]["b"] = value for the key "a.b"; the keys of a sweep have dots themselves."""
    table, _, rest = key.partition(".")
    *path, last = (table, rest) if table == "sweep" and rest else key.split(".")
    for part in path:
        content = content.setdefault(part, {})
        if not isinstance(content, dict):
            raise ValueError(f"'{key}' cannot be set: '{part}' is not a table.")
    content[last] = value


def _found(name_or_path: str | Path) -> Path:
    known = shipped()
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


def _check_keys(table: Mapping[str, Any], name: str, where: str) -> None:
    known = _KEYS[name]
    for key in table:
        if key not in known:
            word = f"{name}.{key}" if name else key
            raise ValueError(f"Unknown key '{word}' {where}. {did_you_mean(key, known)}")


def _place_files(data: Tables, folder: Path) -> None:
    """Make file names relative to the recipe's folder absolute."""
    for key in _PLACES:
        if isinstance(data.get(key), str):
            data[key] = str(folder / data[key])
        elif isinstance(data.get(key), Sequence):
            data[key] = [str(folder / str(place)) for place in data[key]]


def _on_top(base: Tables, content: Tables) -> Tables:
    """Tables are joined key by key, everything else is replaced; another source replaces [data]."""
    merged = dict(base)
    for key, value in content.items():
        renewed = key == "data" and any(source in value for source in _SOURCES)
        if isinstance(value, dict) and isinstance(base.get(key), dict) and not renewed:
            merged[key] = _on_top(base[key], value)
        else:
            merged[key] = value
    return merged


def _value(key: str, text: str) -> Any:
    """48, 1e-3, true, ["fino"] or plain words; `none` is nothing, but for norms of networks."""
    if text.lower() == "none" and not key.endswith(".norm"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
