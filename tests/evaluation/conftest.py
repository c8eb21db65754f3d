"""The waves and run folders that these tests share with those of the report."""

from waves import make_run, make_run_in, make_waves

__all__ = ["make_run", "make_run_in", "make_waves"]
