"""`fino export-data`: any data file that we can open, written in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fino.cli.console import say, say_json

__all__ = ["export_data"]


def export_data(
    path: Path,
    *,
    to: Literal["pdebench", "fino"],
    out: Path,
    layout: Literal["auto", "tensor", "fields", "groups"] = "auto",
    stride_space: int = 1,
    stride_time: int = 1,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write data for other loaders: `fino export-data swe.h5 --to pdebench --out swe.hdf5`.

    Args:
        path: A file or folder of any format that fino opens.
        to: `pdebench` for PDEBench's loaders; `fino` for our own format, which The Well's loader
            reads too.
        out: The file to write.
        layout: Which of PDEBench's layouts; `auto` takes the one that it uses for such data.
        stride_space: Keep every n-th cell along each axis.
        stride_time: Keep every n-th frame.
        overwrite: Replace a file that exists.
        json: Print what was written as JSON.
    """
    from fino.data.open import open as open_data
    from fino.data.pdebench import export_pdebench, layout_for
    from fino.data.store import save

    data = open_data(path)
    if stride_space != 1 or stride_time != 1:
        data = data.strided(stride_space, stride_time)
    if to == "pdebench":
        export_pdebench(data, out, layout, overwrite)
        kind = f"PDEBench, layout {layout_for(data) if layout == 'auto' else layout}"
    else:
        save(data, out, overwrite)
        kind = "fino (The Well's layout)"
    if json:
        say_json({"path": out, "format": kind, "shape": data.shape})
    else:
        say(f"{out}: {' × '.join(map(str, data.shape))}, {kind}.")
