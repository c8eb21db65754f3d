"""A small model whose rollouts neither blow up nor die."""

from little_models import make_history, make_model

__all__ = ["make_history", "make_model"]
