"""A finished recipe of two tiny models, and copies of it that a test may spoil."""

import shutil

import pytest
from little_runs import finished

__all__ = ["finished"]


@pytest.fixture
def run(finished, tmp_path):
    """A trained run of its own folder; its data file is the shared one."""
    return shutil.copytree(finished / "fino", tmp_path / "run")


@pytest.fixture(scope="session")
def waves(finished):
    """A data file of 30 short waves."""
    return finished / "data" / "advection.h5"
