"""One thread a process: the suite runs several processes at once."""

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parent / "shared"))


@pytest.fixture
def tables():
    """Leave the tables of problems and models as they were."""
    import fino
    from fino.model import MODELS

    problems, models = dict(fino.PROBLEMS), dict(MODELS)
    yield
    for name in set(fino.PROBLEMS) - set(problems):
        del fino.PROBLEMS[name]
    for name in set(MODELS) - set(models):
        del MODELS[name]
