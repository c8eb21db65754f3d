"""The waves and run folders that several rooms share."""

import pytest
from waves import make_run, make_run_in, make_waves

__all__ = ["make_run", "make_run_in", "make_waves"]


@pytest.fixture
def words_alone(monkeypatch):
    """Pages without their figures, which are most of the work, where a test reads words."""
    monkeypatch.setattr("fino.report.page._pictures", lambda *scene: [])
