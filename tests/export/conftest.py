"""Compiled steps of the tests lie in a cache of their own, and compile quickly."""

import pytest
import torch

import fino
from fino.export.check import random_start, relative_difference
from fino.export.program import describe
from fino.given import Given
from fino.model.rollout import rollout


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache_folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))


@pytest.fixture
def quick(monkeypatch):
    """Less optimisation: what is compared are numbers, not speed."""
    monkeypatch.setattr("fino.export.engine._found", {})
    monkeypatch.setattr("fino.export.library._FLAGS", ("-O1", "-march=native", "-shared", "-fPIC"))


@pytest.fixture(scope="session")
def real_start():
    """A test sample of a shipped model, repeated along each axis: a domain that it never saw."""

    def start(name, times=1):
        run = fino.PRETRAINED[name]
        try:
            given = run.test_data(1).test.begin([0], run.model.history)[0].last(run.model.history)
        except ValueError:  # measured data cannot be solved again
            return Given(random_start(describe(run.model), batch=1).history)
        return given.with_history(given.history.repeat(1, 1, 1, *[times] * run.model.grid.dims))

    return start


@pytest.fixture(scope="session")
def allowed_difference():
    """1e-5 of torch, or ten times torch's own rounding where a model amplifies that further.

    Rounding of one trajectory is one draw: torch's own, against float64, scatters fivefold from
    sample to sample of compressible-1d, and that of C is 1.4 times as large on average.
    """

    def allowed(name, given, steps):
        model = fino.pretrained(name)
        exact = rollout(fino.pretrained(name).double(), given.to(torch.float64), steps)
        rounding = relative_difference(rollout(model, given, steps)[0], exact[0].float())
        return max(1e-5, 10 * rounding)

    return allowed
