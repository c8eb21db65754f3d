"""The waves and run folders of the evaluation's tests serve here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))

from waves import make_run, make_run_in, make_waves

__all__ = ["make_run", "make_run_in", "make_waves"]
