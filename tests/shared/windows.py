"""A whole window moved by symmetries, as training moves what a model is given and its future."""

import torch

from fino.given import Given
from fino.training.batch import augment


def moved_window(window, card, seed, step):
    """(b, t, c, *space) → the same."""
    given, future = augment(Given(window[:, :1]), window[:, 1:], card, seed, step)
    return torch.cat([given.history, future], dim=1)
