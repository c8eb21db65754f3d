"""Two tiny models of a finished recipe, shared by the tests of several rooms."""

from little_shelf import finished, shelf, shipped

__all__ = ["finished", "shelf", "shipped"]
