"""One thread a process: the suite runs several processes at once."""

import os
import signal
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parent / "shared"))

# Shells start what runs in the background with interrupts ignored, which processes inherit.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


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
