"""Any data file we know, opened by looking inside it.

    fino.open("swe.h5")                          ours, PDEBench's three layouts, The Well's
    fino.open(["air.sig995.2000.nc", …])         NOAA or ERA files: temperature → pressure
    fino.open("folder of NetCDF or Well files")

A file that cannot be read is answered with one line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fino.data.dataset import Dataset
from fino.data.store import read_native

__all__ = ["open"]

Place = str | os.PathLike[str]


def open(path: Place | Sequence[Place], **options: Any) -> Dataset:
    """Open a data file, a folder, or a list of NetCDF files, whatever its format."""
    source = Path(str(path))
    return read_native(source)
