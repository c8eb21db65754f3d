"""The little shelf that these tests share with those of the models."""

from little_shelf import finished, shelf, shipped

__all__ = ["finished", "shelf", "shipped"]
