"""Parameters that are drawn for every trajectory, and files that carry all that is known."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
import torch

import fino
from fino.cli.app import app
from fino.data.generate import plan
from fino.data.store import save
from fino.pde import PROBLEMS

SMALL = {"points": 32, "frames": 5, "duration": 0.1}


def test_every_trajectory_is_solved_with_its_own_parameter():
    data = fino.generate("advection", 6, seed=3, vary={"beta": (0.5, 2.0)}, **SMALL)
    betas = data.parameters["beta"]
    assert len(set(betas)) == 6 and 0.5 <= betas.min() <= betas.max() <= 2.0
    assert "beta" not in data.card.parameters and data.card.speed == pytest.approx(betas.max())
    for sample, beta in enumerate(betas):
        alone = fino.generate("advection", sample + 1, seed=3, beta=float(beta), **SMALL)
        assert torch.equal(data.read([sample]), alone.read([sample]))
    assert data.test[0].given.parameters.tolist() == [[pytest.approx(betas[0])]]


@pytest.mark.parametrize(
    ("choice", "check"),
    [
        ("log:1e-3:1", lambda v: (v >= 1e-3).all() and (v <= 1).all() and (v < 0.03).sum() > 5),
        ("1,2,5", lambda v: set(v) == {1.0, 2.0, 5.0}),
        ([1, 2], lambda v: set(v) == {1.0, 2.0}),
        ((0.1, 0.2), lambda v: (v >= 0.1).all() and (v <= 0.2).all()),
    ],
)
def test_parameters_are_drawn_from_ranges_logarithms_and_lists(choice, check):
    card = plan("diffusion-reaction-1d", 24, vary={"nu": choice}, **SMALL).card
    from fino.data.generate import draw_conditions

    values = draw_conditions(card).parameters[:, 0]
    assert check(values)
    more = draw_conditions(card.changed(samples=30, split=None)).parameters[:24, 0]
    assert np.array_equal(values, more)  # each is a pure function of its number


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_parameter_of_every_problem_can_vary(name):
    usual = PROBLEMS[name]().model_dump(mode="json")
    skipped = {"points", "frames", "duration", "modes", "courant", "step", "tolerance", "window"}
    skipped |= {"half_width"}  # the domain
    physical = [
        key
        for key, value in usual.items()
        if isinstance(value, float) and key not in skipped and value != 0
    ]
    drawn = PROBLEMS[name]().draw_parameters(0, [0])  # those vary anyhow
    physical = [key for key in physical if key not in drawn]
    if not physical:
        pytest.skip("it has no physical parameter")
    key = physical[0]
    small = {k: v for k, v in {**SMALL, "points": 16, "frames": 3}.items() if k in usual}
    data = fino.generate(name, 3, vary={key: [usual[key], 1.1 * usual[key]]}, **small)
    assert list(data.parameters) == [key] and torch.isfinite(data.read(range(3))).all()


def test_mistakes_are_answered_in_one_line():
    for vary, message in (
        ({"bta": "1:2"}, "no parameter 'bta' that can vary. Did you mean 'beta'"),
        ({"beta": "2:1"}, "vary beta should be a range low:high"),
        ({"beta": "log:0:1"}, "with 0 < low < high"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            plan("advection", 4, vary=vary, **SMALL)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="duration cannot vary: it changes the grid or the saved"):
        fino.generate("advection", 2, vary={"duration": "0.1:0.2"}, points=32, frames=5)


def test_a_file_carries_parameters_where_the_well_looks_for_them(tmp_path):
    words = ["generate", "advection", "--samples", "5", "--out", str(tmp_path / "a.h5")]
    words += ["--set", "points=32", "--set", "frames=5", "--vary", "beta=0.5:2", "--json"]
    app(words, exit_on_error=False, result_action="return_value")
    data = fino.open(tmp_path / "a.h5")
    again = fino.generate("advection", 5, vary={"beta": "0.5:2"}, points=32, frames=5)
    assert np.allclose(data.parameters["beta"], again.parameters["beta"])
    assert torch.equal(data.read(range(5)), again.read(range(5)))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["scalars/beta"].shape == (5,) and file["scalars/beta"].attrs["sample_varying"]
        assert "beta" in list(file["scalars"].attrs["field_names"])
    card = json.loads((tmp_path / "a.h5.card.json").read_text())
    assert card["vary"] == {"beta": "0.5:2"}


def test_everything_beside_the_fields_survives_a_file(tmp_path):
    draw = np.random.default_rng(0)
    u = [draw.normal(size=(length, 1, 8, 6)) for length in (9, 6, 7, 9, 8)]
    data = fino.from_array(
        u,
        dt=1,
        extent=(0, 1),
        boundary="neumann",
        parameters={"nu": draw.uniform(size=5), "g": 9.81},
        known={"depth": draw.normal(size=(8, 6))},
        forcing={"wind": draw.normal(size=(5, 9, 8, 6)), "tide": np.arange(9.0)},
        mask=draw.uniform(size=(5, 8, 6)) < 0.1,
        walls="dirichlet",
        history=2,
    )
    kept = save(data, tmp_path / "all.h5")
    assert kept.hash == data.hash and kept.lengths.tolist() == [9, 6, 7, 9, 8]
    assert kept.card.walls == "dirichlet" and kept.card.parameters == {"g": 9.81}
    for ours, theirs in zip(data.test, kept.test, strict=True):
        for name, value in ours.given.beside.items():
            assert torch.equal(value, theirs.given.beside[name]), name
    part = data.strided(space=2, time=2).select([4, 1, 2])
    again = save(part, tmp_path / "part.h5")
    assert again.hash == part.hash
    assert torch.equal(again.train[0].given.known, part.train[0].given.known)


def test_a_changed_parameter_in_a_file_is_noticed(tmp_path):
    fino.generate("advection", 4, vary={"beta": "0.5:2"}, out=tmp_path / "a.h5", **SMALL)
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["scalars/beta"][1] += 0.5
    data = fino.open(tmp_path / "a.h5")
    with pytest.raises(ValueError, match="sample 1 does not match its checksum"):
        data.read([1])
