"""A shower that moves, as small files in the layouts of KNMI and ODIM."""

from __future__ import annotations

from datetime import datetime, timedelta

import h5py
import numpy as np


def rain(frame, rows=40, columns=36):
    """A shower in mm/h that moves two cells down and one to the right, and comes back."""
    y, x = np.mgrid[:rows, :columns]
    y = (y - 12 - 2 * frame + rows // 2) % rows - rows // 2
    x = (x - 10 - frame + columns // 2) % columns - columns // 2
    return 12.0 * np.exp(-(y**2 + x**2) / 18)


def seen(rows=40, columns=36):
    """The cells within the radar's range."""
    y, x = np.mgrid[:rows, :columns]
    return (y - 20) ** 2 + (x - 18) ** 2 < 15**2


def write_knmi(folder, frames=24, minutes=5, skip=()):
    """Accumulations over five minutes in hundredths of a millimetre; 65535 is out of range."""
    folder.mkdir(exist_ok=True)
    midnight = datetime(2010, 8, 26)
    for frame in set(range(frames)) - set(skip):
        end = midnight + timedelta(minutes=frame * minutes)
        begin = end - timedelta(minutes=5)
        with h5py.File(folder / f"RAD_{end:%H%M}.h5", "w") as file:
            packed = np.where(seen(), np.round(rain(frame) / 12 * 100), 65535).astype("u2")
            image = file.create_group("image1")
            image.attrs["image_geo_parameter"] = b"ACCUMULATED_PRECIPITATION_[MM]"
            image["image_data"] = packed
            words = image.create_group("calibration").attrs
            words["calibration_formulas"] = b"GEO=0.01*PV+0.0"
            words["calibration_missing_data"] = words["calibration_out_of_image"] = [65535]
            times = file.create_group("overview").attrs
            for key, time in (("start", begin), ("end", end)):
                words = time.strftime("%d-%b-%Y;%H:%M:%S.000").upper()
                times[f"product_datetime_{key}"] = [words.encode()]
            where = file.create_group("geographic").attrs
            where["geo_pixel_size_x"], where["geo_pixel_size_y"] = [1.0], [-1.0]
    return folder


def write_odim(folder, quantity="RATE", frames=6):
    """The layout that most services of Europe share."""
    folder.mkdir(exist_ok=True)
    for frame in range(frames):
        with h5py.File(folder / f"{frame:03d}.h5", "w") as file:
            file.attrs["Conventions"] = b"ODIM_H5/V2_2"
            values = rain(frame) + 0.1
            if quantity == "DBZH":
                values = 10 * np.log10(200 * values**1.6)
            packed = np.where(seen(), np.round((values + 32) / 0.01), 65535).astype("u2")
            file["dataset1/data1/data"] = packed
            what = file["dataset1"].create_group("what").attrs
            what["startdate"] = what["enddate"] = b"20240501"
            what["starttime"] = what["endtime"] = f"12{10 * frame:02d}00".encode()
            own = file["dataset1/data1"].create_group("what").attrs
            own["quantity"], own["gain"], own["offset"] = quantity.encode(), 0.01, -32.0
            own["nodata"], own["undetect"] = 65535.0, 0.0
            where = file.create_group("where").attrs
            where["xscale"], where["yscale"] = 2000.0, 2000.0
    return folder
