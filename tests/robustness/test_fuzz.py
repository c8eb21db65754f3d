"""Spoilt files and senseless commands: one line and exit 2, never a traceback, a crash or a hang.

Every case is a pure function of its number.  The commands run in copies of this process that may
take two gigabytes; one that ends badly is run again alone.  A failure names its case.
"""

from __future__ import annotations

import gc
import hashlib
import json
import random
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from answers import ask_a_copy, fino, fino_in_turn
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from scipy.io import netcdf_file, savemat

import fino as package
from fino.cli.app import VERBS
from fino.model.store import _config_bytes

#: Values that no setting, option or entry of a file expects everywhere.
ODD = [
    None,
    True,
    "",
    "x",
    "ü\n\x1b[0m",
    "[/bold]",
    -1,
    0,
    0.5,
    1e308,
    -1e-308,
    [],
    {},
    [[]],
    10**30,
]
ODD += [float("nan"), float("inf"), "../../etc", "9" * 5000, [1, "a"], {"a": None}, "\x00"]


class Case:
    """A folder to spoil, a source of random choices, and the words of the command."""

    def __init__(self, kind: str, number: int, base: Path, folder: Path) -> None:
        self.draw = random.Random(f"{kind} {number}")
        self.base, self.folder = base, folder
        folder.mkdir()

    def spoil(self, path: Path) -> None:
        """Change, cut, lengthen, empty or replace a file."""
        content = bytearray(path.read_bytes() or b" ")
        way = self.draw.choice(["flip", "flip", "many", "cut", "zero", "insert", "empty", "noise"])
        if way in ("flip", "many"):
            for _ in range(1 if way == "flip" else 50):
                content[self.draw.randrange(len(content))] ^= 1 << self.draw.randrange(8)
        elif way == "cut":
            del content[self.draw.randrange(len(content)) :]
        elif way == "zero":
            start = self.draw.randrange(len(content))
            stop = min(len(content), start + self.draw.randrange(1, 200))
            content[start:stop] = bytes(stop - start)
        elif way == "insert":
            place = self.draw.randrange(len(content))
            content[place:place] = self.draw.randbytes(self.draw.randrange(1, 50))
        else:
            content = self.draw.randbytes(2000 * (way == "noise"))
        path.write_bytes(content)

    def spoil_json(self, value: object, forbidden: tuple[str, ...] = ()) -> object:
        """Change one place of what JSON says; entries of the forbidden names get only words."""
        if isinstance(value, dict) and value and self.draw.random() < 0.9:
            key = self.draw.choice(sorted(value))
            changed = dict(value)
            way = self.draw.random()
            if key in forbidden:
                changed[key] = self.draw.choice(["x", [], {}, -1])
            elif way < 0.15:
                del changed[key]
            elif way < 0.25:
                changed[self.draw.choice(["new", "", "ü"])] = self.odd()
            else:
                changed[key] = self.spoil_json(value[key], forbidden)
            return changed
        if isinstance(value, list) and value and self.draw.random() < 0.7:
            changed = list(value)
            place = self.draw.randrange(len(value))
            changed[place] = self.spoil_json(value[place], forbidden)
            return changed
        return self.odd()

    def odd(self) -> object:
        return self.draw.choice(ODD)


def data_file(case: Case) -> list[object]:
    kind = case.draw.choice(["native", "tensor", "npz", "npy", "nc", "mat", "text"])
    path = case.folder / f"data.{kind if kind in ('npz', 'npy', 'nc', 'mat') else 'h5'}"
    sizes = [case.draw.choice([0, 1, 2, 3, 5, 8]) for _ in range(case.draw.randrange(6))]
    numbers = np.random.default_rng(case.draw.randrange(99)).normal(size=(6, 5, 1, 8))
    dtype = case.draw.choice(["f4", "f8", "f2", "i8", "?", "c8", "U3", ">f4", "g"])
    array = (numbers if case.draw.random() < 0.5 else np.ones(sizes)).astype(dtype)
    if kind == "native":
        shutil.copy(case.base / "data" / "advection.h5", path)
    elif kind == "tensor":
        with h5py.File(path, "w") as file:
            file["tensor" if case.draw.random() < 0.8 else "u"] = _storable(array)
            file["x-coordinate"] = np.linspace(0, 1, case.draw.choice([0, 1, 8]))
            if case.draw.random() < 0.5:
                file["t-coordinate"] = np.arange(case.draw.choice([0, 1, 5, 6]), dtype=float)
    elif kind == "npz":
        np.savez(path, u=array, dt=case.draw.choice([0.1, np.nan, "x"]), extent=[0, 1])
    elif kind == "npy":
        np.save(path, array)
    elif kind == "nc":
        with netcdf_file(path, "w") as file:
            for name, size in (("time", 5), ("x", 8)):
                file.createDimension(name, size)
                file.createVariable(name, "f8", (name,))[:] = np.arange(size)
            file.createVariable("u", "f4", ("time", "x"))[:] = numbers[0, :, 0]
    elif kind == "mat":
        savemat(path, {"u": numbers[:, :, 0], "t": np.arange(5.0)})
    else:
        path.write_bytes(case.draw.randbytes(case.draw.randrange(3000)))
    if case.draw.random() < 0.7 and path.stat().st_size:
        case.spoil(path)
    out = case.folder / "out.h5"
    verb = case.draw.choice(["export", "export", "export", "evaluate", "train"])
    told = ["--dt", 0.1, "--extent", "0:1", "--boundary", "periodic"]
    if kind in ("native", "text") or case.draw.random() < 0.4:
        told = []
    if verb == "evaluate":
        words = ["evaluate", case.base / "fino", "--data", path, *told]
        return [*words, "--out", case.folder / "s.json"]
    if verb == "train":
        small = ["--set", "model.width=2", "--set", "train.threads=1", "--set", "model.levels=0"]
        words = ["train", "--data", path, "--steps", 1, "--out", case.folder / "run"]
        return [*words, *small, *told]
    layout = case.draw.choice(["fino", "pdebench"])
    return ["export-data", path, "--to", layout, "--out", out, *told]


def _storable(array: np.ndarray) -> np.ndarray:
    return array.astype("S3") if array.dtype.kind == "U" else array


def model_folder(case: Case) -> list[object]:
    folder = case.folder / "model"
    shutil.copytree(case.base / case.draw.choice(["fino", "fno"]) / "model", folder)
    weights, config = folder / "model.safetensors", folder / "config.json"
    if case.draw.random() < 0.3:
        case.spoil(case.draw.choice([weights, config]))
    else:  # changed by somebody who knows the checksums
        content, told = weights.read_bytes(), json.loads(config.read_text())
        if case.draw.random() < 0.4:
            tensors = tensors_from_bytes(content)
            name = case.draw.choice(sorted(tensors))
            changes = [lambda t: t * float("nan"), lambda t: t.long(), lambda t: t.flatten()[:0]]
            changes += [lambda t: t.double(), lambda t: t.flatten(), lambda t: t * 1e30]
            tensors[name] = case.draw.choice(changes)(tensors[name])
            content = bytes_from_tensors({n: t.contiguous() for n, t in tensors.items()})
            weights.write_bytes(content)
        else:
            told = case.spoil_json(told)
        if isinstance(told, dict):
            told["weights_sha256"] = hashlib.sha256(content).hexdigest()
            config.write_bytes(_config_bytes(told))
    verb = case.draw.choice([*["rollout"] * 6, "evaluate", "inspect"])
    if verb == "rollout":
        return ["rollout", folder, "--steps", 2, "--history", case.base / "start.npy"]
    return [verb, folder, "--data", case.base / "data" / "advection.h5"]


_BUDGETS = ("minutes", "cpu_seconds", "steps", "epochs", "validations", "validation_samples")


def run_folder(case: Case) -> list[object]:
    folder = shutil.copytree(case.base / "fino", case.folder / "run")
    name = case.draw.choice(
        ["data.json", "settings.json", "metrics.jsonl", "last/state.json", "scores.json"]
    )
    path = folder / name
    if case.draw.random() < 0.25:
        case.spoil(path)
    elif name == "metrics.jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows.insert(case.draw.randrange(len(rows) + 1), case.spoil_json(rows[0]))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        told = case.spoil_json(json.loads(path.read_text()), _BUDGETS)
        path.write_text(json.dumps(told))
    if case.draw.random() < 0.1:
        gone = case.draw.choice(["start", "model", "last", name])
        shutil.rmtree(folder / gone, ignore_errors=True)
        (folder / gone).unlink(missing_ok=True) if (folder / gone).is_file() else None
    verb = case.draw.choice([*["resume", "compare", "rollout"] * 3, "evaluate"])
    if verb == "resume":
        return ["train", "--resume", folder]
    if verb == "rollout":
        return ["rollout", folder, "--steps", 2]
    return [verb, folder]


def recipe(case: Case) -> list[object]:
    told = {
        "title": "x",
        "models": ["fino", "fno"],
        "seeds": [0],
        "jobs": 1,
        "data": {"problem": "advection", "samples": 4, "settings": {"points": 32, "frames": 5}},
        "model": {"history": 2, "fino": {"width": 2, "levels": 0}},
        "train": {"steps": 1, "batch": 2, "threads": 1, "learning_rate": 0.01},
        "sweep": {"model.width": [2, 4]},
    }
    for _ in range(case.draw.choice([1, 1, 1, 2, 3])):
        told = case.spoil_json(told)
    path = case.folder / "recipe.toml"
    path.write_text(_toml(told) if isinstance(told, dict) else str(told))
    if case.draw.random() < 0.3:
        case.spoil(path)
    return ["run", path, "--dry-run", "--out", case.folder / "out"]


def _toml(value: object) -> str:
    """TOML as far as it can say the value, and senseless text where it cannot."""
    if isinstance(value, dict):
        return "\n".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items())
    return _inline(value)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return "1979-05-27" if value is None else json.dumps(value).replace("NaN", "nan")


_OPTIONS = (
    *("--data", "--model", "--steps", "--out", "--resume", "--recipe", "--set", "--json"),
    *("--samples", "--seed", "--stride-space", "--stride-time", "--initial", "--vary", "--tile"),
    *("--part", "--convention", "--batch", "--metrics", "--format", "--figure", "--movie"),
    *("--sample", "--figures", "--history", "--region", "--every", "--mesh", "--device", "--why"),
    *("--to", "--layout", "--jobs", "--dry-run", "--overwrite", "--help", "--nonsense", "-x"),
)


def command_line(case: Case) -> list[object]:
    base = case.base
    places = [base / "fino", base / "fino" / "model", base / "data" / "advection.h5"]
    places += [base / "start.npy", case.folder / "none", case.folder / "new.h5", base, "."]
    names = ["advection", "fino", "quickstart", "shallow-water", "test", "pdebench", "cpu", "cuda"]
    sets = ["model.width=2", "train.steps=x", "train.batch=0", "a.b.c=1", "=", "beta=nan", "x"]
    few = ["-1", "0", "1", "2", "x", "nan", "1e30", "0:4", "2x2", "0:4,0:4", "1.5"]
    verb = case.draw.choice([*VERBS, "genrate", "--version", ""])
    words: list[object] = [verb]
    for _ in range(case.draw.randrange(5)):
        pool = case.draw.choice([places, places, names, sets, few, [*map(str, ODD)]])
        if case.draw.random() < 0.7:
            words.append(case.draw.choice(_OPTIONS))
        if case.draw.random() < 0.8:
            words.append(str(case.draw.choice(pool)).replace("\x00", "0"))
    return _short(verb, words, case.folder)


def _short(verb: str, words: list[object], folder: Path) -> list[object]:
    """The same command without the work of minutes that it may ask for by right."""
    if verb == "run":
        return [*words, "--dry-run"]
    if verb == "train":
        return [*words, "--steps", 1, "--set", "model.width=2", "--out", folder / "made"]
    if verb == "generate":
        small = ["--samples", 2, "--set", "points=32", "--set", "frames=4"]
        return [*words, *small, "--out", folder / "made.h5"]
    if verb in ("rollout", "evaluate"):
        return [*words, "--samples" if verb == "evaluate" else "--steps", 2]
    return words


KINDS = {
    "data files": data_file,
    "model folders": model_folder,
    "run folders": run_folder,
    "recipes": recipe,
    "command lines": command_line,
}


@pytest.fixture(scope="session")
def base(finished, tmp_path_factory):
    """A finished recipe and a start; one command of each kind, so that all is imported."""
    folder = shutil.copytree(finished, tmp_path_factory.mktemp("fuzz") / "base")
    start = package.open(folder / "data" / "advection.h5").test[0].history.numpy()
    np.save(folder / "start.npy", start)
    facts = json.loads((folder / "fino" / "data.json").read_text())
    facts["path"] = str(folder / "data" / "advection.h5")
    (folder / "fino" / "data.json").write_text(json.dumps(facts))
    for words in (
        ["list"],
        ["rollout", folder / "fino", "--steps", 1],
        ["compare", folder / "fino"],
        ["inspect", folder / "fino"],
        ["run", "quickstart", "--dry-run"],
        ["evaluate", "--help"],
    ):
        assert fino(*words).code == 0
    gc.collect()
    gc.freeze()  # copies of this process then share its memory
    return folder


def fuzz(kind: str, numbers: range, base: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fino.data.open.ask", ask_a_copy)
    failures = []
    folders = [tmp_path / f"case-{number}" for number in numbers]
    commands = [
        KINDS[kind](Case(kind, number, base, folder))
        for number, folder in zip(numbers, folders, strict=True)
    ]
    for number, words, answer in zip(numbers, commands, fino_in_turn(commands), strict=True):
        if not answer.is_polite:
            said = [line for line in answer.err.strip().splitlines() if line.strip()]
            line = f"{kind} {number}: exit {answer.code}, {' '.join(map(str, words))[:300]!r}"
            failures.append(f"{line}: {' | '.join(said[-3:])[-500:]}")
    for folder in folders:
        shutil.rmtree(folder)
    shown = "\n".join(failures[:40])
    assert not failures, f"{len(failures)} of {len(numbers)} cases:\n{shown}"


@pytest.mark.parametrize("kind", KINDS)
def test_fuzz(kind, base, tmp_path, monkeypatch):
    fuzz(kind, range(40), base, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hundred", range(20))
def test_fuzz_ten_thousand_cases(kind, hundred, base, tmp_path, monkeypatch):
    fuzz(kind, range(100 * hundred, 100 * (hundred + 1)), base, tmp_path, monkeypatch)
