"""Two tiny models of a finished recipe, shared by the tests of several rooms."""

from little_runs import finished, shipped, weights_folder

__all__ = ["finished", "shipped", "weights_folder"]
