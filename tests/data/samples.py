"""Small files in every format that fino opens."""

import random
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
from scipy.io import netcdf_file

import fino
from fino.data.store import save


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def centres(points: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    return (low + (np.arange(points) + 0.5) * (high - low) / points).astype(np.float32)


def tensor_file(path: Path, u: np.ndarray | None = None) -> Path:
    """PDEBench's advection: one time more than frames, the speed as an attribute."""
    u = noise(6, 5, 16) if u is None else u
    with h5py.File(path, "w") as file:
        file["tensor"] = u
        file["x-coordinate"] = centres(u.shape[2])
        file["t-coordinate"] = np.arange(u.shape[1] + 1, dtype=np.float32) * 0.01
        file.attrs["beta"] = 4.0
    return path


def darcy_file(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file["tensor"] = noise(6, 1, 8, 8)
        file["nu"] = noise(6, 8, 8, seed=1)
        file["x-coordinate"] = file["y-coordinate"] = centres(8)
        file.attrs["beta"] = 1.0
    return path


def fields_file(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        for seed, name in enumerate(("density", "pressure", "Vx")):
            file[name] = noise(6, 5, 16, seed=seed)
        file["x-coordinate"] = centres(16, -1, 1)
        file["t-coordinate"] = np.arange(6, dtype=np.float32) * 0.01
        file.attrs["eta"], file.attrs["zeta"] = 1e-8, 1e-8
    return path


def groups_file(path: Path, channels: int = 1, samples: int = 6) -> Path:
    with h5py.File(path, "w") as file:
        for i in range(samples):
            group = file.create_group(f"{i:04d}")
            group.create_dataset("data", data=noise(5, 8, 8, channels, seed=i), compression="lzf")
            group["grid/x"] = group["grid/y"] = centres(8, -2.5, 2.5)
            group["grid/t"] = np.arange(5, dtype=np.float32) * 0.01
            group.attrs["config"] = "sim:\n  T_end: 1.0\n"
    return path


def well_file(path: Path, samples: int = 4) -> Path:
    """A vector field, a scalar field and a constant one, as The Well stores them."""
    words = h5py.string_dtype()
    with h5py.File(path, "w") as file:
        file.attrs["dataset_name"] = "stirred"
        file.attrs["grid_type"] = "cartesian"
        file.attrs["n_spatial_dims"] = 2
        file.attrs["n_trajectories"] = samples
        file.attrs.create("simulation_parameters", ["Re"], dtype=words)
        file.attrs["Re"] = 100.0
        dims = file.create_group("dimensions")
        dims.attrs.create("spatial_dims", ["x", "y"], dtype=words)
        dims["time"] = np.arange(5, dtype=np.float32) * 0.5
        dims["x"], dims["y"] = np.arange(8.0) / 8, np.arange(12.0) / 12
        edges = file.create_group("boundary_conditions/sides")
        edges.attrs["bc_type"] = "PERIODIC"
        edges.attrs.create("associated_dims", ["x"], dtype=words)
        for order, name, shape in (
            (0, "pressure", (samples, 5, 8, 12)),
            (1, "velocity", (samples, 5, 8, 12, 2)),
            (0, "depth", (8, 12)),
        ):
            group = file.require_group(f"t{order}_fields")
            array = group.create_dataset(name, data=noise(*shape))
            array.attrs["dim_varying"] = [True, True]
            array.attrs["sample_varying"] = array.attrs["time_varying"] = name != "depth"
        file["t0_fields"].attrs.create("field_names", ["pressure", "depth"], dtype=words)
        file["t1_fields"].attrs.create("field_names", ["velocity"], dtype=words)
    return path


def days(year: int) -> np.ndarray:
    """Hours since 1800-01-01 of every day of a year."""
    dates = np.arange(f"{year}-01-01", f"{year + 1}-01-01", dtype="datetime64[D]")
    return (dates - np.datetime64("1800-01-01")).astype(float) * 24


def noaa_file(
    path: Path,
    name: str,
    hours: np.ndarray,
    latitude: np.ndarray | None = None,
    longitude: np.ndarray | None = None,
    units: str = "degK",
) -> Path:
    """As NOAA gives them: packed in 16 bits, hours since 1800, latitude descending."""
    latitude = np.arange(90, -91, -2.5) if latitude is None else latitude
    longitude = np.arange(0, 360, 2.5) if longitude is None else longitude
    level = {"air": 280.0, "pres": 98000.0, "slp": 1010.0}[name]
    scale = {"air": 0.01, "pres": 10.0, "slp": 0.01}[name]
    wave = np.sin(np.arange(len(hours)))[:, None, None] * np.cos(np.deg2rad(latitude))[:, None]
    packed = np.round(100 * wave + np.arange(len(longitude))).astype(np.int16)
    with h5py.File(path, "w") as file:
        file["lat"], file["lon"] = latitude.astype(np.float32), longitude.astype(np.float32)
        file["time"] = hours
        file["time"].attrs["units"] = "hours since 1800-01-01 00:00:0.0"
        array = file.create_dataset(name, data=packed, compression="gzip")
        array.attrs["scale_factor"] = np.array([scale], dtype=np.float32)
        array.attrs["add_offset"] = np.array([level], dtype=np.float32)
        array.attrs["missing_value"] = np.array([32766], dtype=np.int16)
        array.attrs["units"] = np.bytes_(units)
    return path


def era_file(path: Path) -> Path:
    """As ECMWF gives them: NetCDF 3, both quantities in one file."""
    latitude, longitude = np.arange(90, -91, -15.0), np.arange(0, 360, 15.0)
    with netcdf_file(str(path), "w", version=2) as file:
        for name, line in (("latitude", latitude), ("longitude", longitude)):
            file.createDimension(name, len(line))
            file.createVariable(name, "f", (name,))[:] = line
        file.createDimension("time", 3)
        time = file.createVariable("time", "i", ("time",))
        time[:] = [1026372, 1027044, 1027788]
        time.units = "hours since 1900-01-01 00:00:00.0"
        for name, units, scale, offset in (("t2m", "K", 0.01, 270.0), ("sp", "Pa", 1.0, 1e5)):
            packed = file.createVariable(name, "h", ("time", "latitude", "longitude"))
            packed[:] = (100 * noise(3, 13, 24)).astype(np.int16)
            packed.scale_factor, packed.add_offset, packed.units = scale, offset, units
    return path


def native_file(path: Path, steady: bool = False) -> Path:
    u = noise(6, 2 if steady else 5, 2, 8, 12)
    data = fino.from_array(
        u, dt=0.1, extent=(0, 1), boundary=("periodic", "neumann"), steady=steady,
        parameters={"beta": 2.0, "u0": 3},
    )  # fmt: skip
    save(data, path)
    return path


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Cut short, bytes changed, or a stretch overwritten."""
    changed = bytearray(content)
    kind = draw.randrange(5)
    if kind == 0:
        return bytes(changed[: draw.randrange(1, len(changed))])
    if kind == 1:
        place, length = draw.randrange(len(changed)), draw.randrange(1, 64)
        changed[place : place + length] = draw.randbytes(length)
        return bytes(changed)
    for _ in range((1, 4, 16)[kind - 2]):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


#: Every single-file format by name.
FILES: dict[str, Callable[[Path], Path]] = {
    "native": native_file,
    "native-steady": lambda path: native_file(path, steady=True),
    "tensor": tensor_file,
    "darcy": darcy_file,
    "fields": fields_file,
    "groups": groups_file,
    "well": well_file,
    "era": era_file,
}
