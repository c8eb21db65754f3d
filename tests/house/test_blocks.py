"""Every command and every block of Python in the README and on the site runs.

The blocks of a page run in order in one folder that holds small stand-ins of the files that they
name (`STAND_INS`).  Budgets and numbers of samples are made small (`SMALLER`), nothing else is
changed.  What cannot run in a test is in `NOT_RUN`, with the reason.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from radar_images import write_knmi

import fino
from fino.cli.app import app
from lab.app import app as lab

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

#: Budgets and sizes: the written form → what is run.
SMALLER = (
    (r"--minutes \S+", "--minutes 0.02"),
    (r"--samples \d+", "--samples 10"),
    (r"minutes=[\d.]+", "minutes=0.02"),
    (r"samples=\d{2,}", "samples=10"),
    (r"--steps \d+", "--steps 6"),
    (r"--every \d+", "--every 3"),
    (r"steps=(500|50)\b", "steps=6"),
    (r"every=100", "every=3"),
    (r"crop=192", "crop=16"),
    (r"horizon=12", "horizon=2"),
    (r"levels=3", "levels=1"),
    (r"test=31, validation=0", "test=13, validation=0"),
    (r"(fino run quickstart)\b", r"\1 --set data.samples=10 --set train.cpu_seconds=1"),
    (r"(fino run --data \S+)", r"\1 --minutes 0.02"),
    (r"(fino generate gray-scott .*)", r"\1 --set points=16 --set frames=4 --set duration=40"),
    (r"(fino generate mp-pde) .*?(--set experiment)", r"\1 --samples 3 \2"),
    (r"(fino run radar .*)", r"\1 --model fino --minutes 0.02 --set train.crop=16 "
     "--set train.horizon=2 --set model.fino.width=4 --set model.fino.levels=1"),
)  # fmt: skip

#: How a command begins → why it is not run here.
NOT_RUN = {
    "python3 -m venv": "installs everything anew; the package's own build is tried by hand",
    ".venv/bin/": "the same, and the tests themselves",
    "pip install": "needs a package index",
    "torchrun": "several machines; tests/inference runs ranks",
    "fino play": "serves a page until it is stopped; tests/export plays it",
    "fino run laptop-": "twenty CPU-minutes a model; tests/recipe plans it",
    "fino run lab/recipes/": "minutes for each of many cases; tests/recipe plans it",
    "fino evaluate --pretrained": "solves hundreds of samples; a slow test scores shipped models",
    "python -m lab keep": "writes scores into the project; tests/lab keeps them elsewhere",
    "python -m lab ship": "writes weights into the package; tests/lab ships elsewhere",
    "python -m lab bench": "measures for minutes; tests/lab runs every bench on small cases",
    "python -m lab results": "writes the project's own pages; tests/lab builds them elsewhere",
    "python -m lab radar": "trains for half an hour, writes the project's own pages; tests/lab",
    "python -m lab audit": "solves hundreds of samples; tests/lab audits a small model",
    "python -m lab trust": "writes the package's own files; tests/lab",
    "fino report shallow-water": "solves and draws for a minute; tests/report has shipped models",
}


def blocks(page):
    """(language, text) of the blocks of a page that hold commands or Python."""
    for language, text in re.findall(r"^```(.*?)\n(.*?)^```", page.read_text(), re.S | re.M):
        if language in ("sh", "python"):
            yield language, text
        elif not language:
            # A list of commands, each with what it does after two spaces.
            yield "sh", "\n".join(re.split(r"\s{2,}", line)[0] for line in text.splitlines())


def commands(text):
    for line in text.splitlines():
        words = line.split(" #")[0].strip()
        if words and not words.startswith("#"):
            yield words


def is_command(words):
    return words.startswith(("fino ", "python", "pip ", ".venv/", "torchrun "))


def smaller(text):
    for pattern, replacement in SMALLER:
        text = re.sub(pattern, replacement, text)
    return text


def waves(samples=12, frames=14, points=16):
    x = np.arange(points) / points
    phase = np.random.default_rng(0).uniform(0, 1, (samples, 1, 1))
    return np.sin(2 * np.pi * (x - 0.05 * np.arange(frames)[:, None] - phase))


def stand_in(name):
    """A small file or folder of a name that the pages use."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    u = waves()
    facts = {"dt": 0.01, "extent": (0, 1), "boundary": "periodic"}
    if name in ("mine.npy", "test.npy"):
        np.save(name, u)
    elif name == "mine.npz":
        np.savez(name, u=u, t=0.01 * np.arange(14), x=(np.arange(16) + 0.5) / 16)
    elif name.endswith(".mat"):
        from scipy.io import savemat

        savemat(name, {"u": u})
    elif name == "mine.nc":
        _netcdf(name, u)
    elif name == "burgers_lowres.pt":
        torch.save({"output": torch.from_numpy(u).float()}, name)
    elif name in ("darcy_train_16.pt", "darcy_test_16.pt", "darcy_test_32.pt"):
        rock = torch.rand(20, 16, 16, generator=torch.Generator().manual_seed(0))
        torch.save({"x": rock, "y": rock.cumsum(1)}, name)
    elif name == "start.npy":
        np.save(name, np.random.default_rng(0).normal(size=(1, 10, 1, 16, 16)))
    elif name in ("my-images", "radar-knmi"):
        write_knmi(Path(name), frames=60)
    elif name == "mine.h5" or name == "data/swe.h5":
        fino.save(_plane(), name)
    elif name == "runs/swe":
        data = fino.open("data/swe.h5") if Path("data/swe.h5").exists() else _plane()
        if not Path("data/swe.h5").exists():
            fino.save(data, "data/swe.h5")
            data = fino.open("data/swe.h5")
        fino.fit(fino.build("fino", data, width=4, levels=0), data, out=name, steps=2)
    elif name == "runs/mine":
        data = fino.open("mine.mat" if Path("mine.mat").exists() else u[:, :, None], **facts)
        fino.fit(fino.build("fino", data, width=4, levels=0), data, out=name, steps=2)


def _plane():
    u = np.random.default_rng(0).normal(size=(10, 14, 1, 16, 16))
    return fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic", name="swe")


def _trusted():
    """Waves with as many validation trajectories as a band of 90 % needs, and a run of them."""
    facts = {"dt": 0.01, "extent": (0, 1), "boundary": "periodic", "history": 3}
    facts["symmetries"] = ("sign",)
    data = fino.from_array(waves(24)[:, :, None], **facts).with_split(
        train=10, validation=12, test=2
    )
    model = fino.build("fino", data, width=4, levels=1)
    return {"data": data, "model": model, "run": fino.fit(model, data, steps=2)}


def _netcdf(name, u):
    import xarray as xr

    line = {"time": 0.01 * np.arange(14), "x": (np.arange(16) + 0.5) / 16}
    held = xr.Dataset({"h": (("sample", "time", "x"), u)}, coords=line)
    held["h"].attrs["boundary"] = "periodic"
    held.to_netcdf(name)


STAND_INS = (
    *("mine.npy", "test.npy", "mine.npz", "mine.mat", "test.mat", "mine.nc", "start.npy"),
    *("burgers_lowres.pt", "darcy_train_16.pt", "darcy_test_16.pt", "darcy_test_32.pt"),
    *("mine.h5", "my-images", "radar-knmi", "data/swe.h5", "runs/swe", "runs/mine"),
)
#: What Python blocks use that the page has explained in words.
NAMES = {
    "conditions.md": lambda: {
        "u": np.random.default_rng(0).normal(size=(10, 14, 1, 8, 8)),
        "nu": np.linspace(0.02, 0.04, 10),
        "wind": np.zeros((14, 8, 8)),
        "land": np.eye(8, dtype=bool),
    },
    "scaling.md": lambda: {"model": fino.build("fino", _plane(), width=4, levels=0)},
    "training.md": lambda: {"data": _plane()},
    "trust.md": lambda: _trusted(),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_does_not_run_is_listed_with_its_reason(page):
    for language, text in blocks(page):
        for words in commands(text) if language == "sh" else ():
            if is_command(words) and not words.startswith(("fino ", "python -m lab ")):
                assert words.startswith(tuple(NOT_RUN)), words
        if language == "python":
            compile(text, page.name, "exec")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = list(blocks(page))
    text = "\n".join(text for _, text in found)
    made = re.findall(r"--out (\S+)|out=\"(\S+)\"", text)
    made = {name for pair in made for name in pair if name}
    for name in STAND_INS:
        if name in text and name not in made:
            stand_in(name)
    names = {"fino": fino, **NAMES.get(page.name, dict)()}
    for language, text in found:
        if language == "python":
            exec(compile(smaller(text), page.name, "exec"), names)
            continue
        for words in commands(text):
            if is_command(words) and not words.startswith(tuple(NOT_RUN)):
                run(smaller(words))


def run(words):
    """A command in this process; `runs/*` is what the shell makes of it."""
    head, *rest = shlex.split(words)
    rest = [name for word in rest for name in (sorted(map(str, Path().glob(word))) or [word])]
    if head == "python":
        assert rest[:2] == ["-m", "lab"]
        lab(rest[2:], result_action="return_value")
    else:
        app(rest, result_action="return_value")
