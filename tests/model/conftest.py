"""The little shelf of the experiments' tests serves here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "experiment"))

from little_shelf import finished, shelf, shipped

__all__ = ["finished", "shelf", "shipped"]
