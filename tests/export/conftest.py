"""The small models that several rooms share."""

from little_models import make_history, make_model

__all__ = ["make_history", "make_model"]
