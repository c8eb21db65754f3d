"""The waves and run folders that several rooms share."""

from waves import make_run, make_run_in, make_waves

__all__ = ["make_run", "make_run_in", "make_waves"]
