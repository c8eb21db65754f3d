"""Foreign files open as they come; what cannot be opened is answered in one line."""

import random
from pathlib import Path

import h5py
import numpy as np
import pytest
import samples
import torch
from samples import mutated, noise

import fino
from fino.data.pdebench import export_pdebench
from fino.data.store import save


def test_the_tensor_layout_is_read_with_its_facts(tmp_path):
    path = samples.tensor_file(tmp_path / "1D_Advection_Sols_beta4.0.hdf5")
    data = fino.open(path)
    assert data.shape == (6, 5, 1, 16) and data.card.name == "advection"
    assert np.array_equal(data.read([4, 1], 1, 3)[:, :, 0], noise(6, 5, 16)[[4, 1], 1:4])
    assert data.dt == 0.01 and data.grid.extent == ((0.0, 1.0),)
    assert data.grid.boundary == ("periodic",) and data.card.parameters == {"beta": 4.0}
    assert data.card.speed == 4.0 and "twice the stated speed" in data.card.flaws[0]
    assert data.test.samples == (0,)  # the first tenth, as PDEBench's loader has it
    strided = data.strided(space=4, time=2)
    assert np.array_equal(strided.read([0])[0, :, 0], noise(6, 5, 16)[0, ::2, ::4])


def test_darcy_files_are_read_as_pairs(tmp_path):
    data = fino.open(samples.darcy_file(tmp_path / "2D_DarcyFlow_beta1.0_Train.hdf5"))
    assert data.steady and data.shape == (6, 2, 1, 8, 8) and data.card.name == "darcy-pdebench"
    assert np.array_equal(data.read([2])[0, 0, 0], noise(6, 8, 8, seed=1)[2])
    assert np.array_equal(data.read([2])[0, 1, 0], noise(6, 1, 8, 8)[2, 0])
    assert data.grid.boundary == ("dirichlet", "dirichlet")
    assert data.test[0].history.shape == (1, 1, 8, 8)


def test_the_fields_layout_is_read_in_the_loaders_order(tmp_path):
    name = "1D_CFD_Rand_Eta1.e-8_Zeta1.e-8_trans_Train.hdf5"
    data = fino.open(samples.fields_file(tmp_path / name))
    assert data.card.name == "compressible-1d" and data.channels == 3
    for channel in range(3):
        assert np.array_equal(data.read([5])[0, :, channel], noise(6, 5, 16, seed=channel)[5])
    assert data.grid.boundary == ("neumann",) and data.grid.extent == ((-1.0, 1.0),)
    assert fino.open(tmp_path / name, boundary="periodic").grid.boundary == ("periodic",)


@pytest.mark.parametrize(("channels", "name"), [(1, "shallow-water"), (2, "diffusion-reaction-2d")])
def test_the_numbered_groups_are_read(tmp_path, channels, name):
    data = fino.open(samples.groups_file(tmp_path / "2D.h5", channels, samples=10))
    assert data.card.name == name and data.shape == (10, 5, channels, 8, 8)
    expected = np.moveaxis(noise(5, 8, 8, channels, seed=7), -1, 1)
    assert np.array_equal(data.read([7])[0], expected)
    assert np.array_equal(data.strided(space=2, time=2).read([7])[0], expected[::2, :, ::2, ::2])
    assert data.grid.extent == ((-2.5, 2.5), (-2.5, 2.5)) and data.dt == 0.01
    assert data.test.samples == (9,)  # the last tenth, as PDEBench's multi-file loader has it


def test_what_we_export_opens_again_with_the_same_numbers(tmp_path, wave):
    cases = {
        "tensor": fino.from_array(
            noise(5, 6, 1, 16), dt=0.25, extent=(0, 1), boundary="periodic", name="advection"
        ),
        "fields": fino.from_array(
            noise(5, 6, 3, 16), dt=0.25, extent=(-1, 1), boundary="neumann",
            fields=("density", "pressure", "Vx"), name="compressible-1d",
            symmetries=("flip",), directions=(None, None, 0),
        ),
        "groups": fino.from_array(
            noise(5, 6, 2, 8, 8), dt=0.25, extent=(-1, 1), boundary="neumann", fields=("u", "v"),
            name="diffusion-reaction-2d", symmetries=("flip", "rotate"), directions=(0, 1),
        ),
        "steady": fino.from_array(
            noise(5, 2, 1, 8, 8), dt=1, extent=(0, 1), boundary="dirichlet", steady=True,
            fields=("u",), name="darcy",
        ),
    }  # fmt: skip
    for kind, data in cases.items():
        path = export_pdebench(data, tmp_path / f"{kind}.hdf5")
        again = fino.open(path)
        assert again.hash == data.hash, kind
        assert again.grid == data.grid and again.dt == data.dt and again.steady == data.steady
        assert again.card.name == data.card.name and again.fields == data.fields
        assert again.card.symmetries == data.card.symmetries
        assert again.card.directions == data.card.directions
        with h5py.File(path) as file:
            inside = {"tensor": "tensor", "fields": "Vx", "groups": "0003/data", "steady": "nu"}
            assert inside[kind] in file
            if kind in ("tensor", "fields"):  # one time more than frames, as in the originals
                assert file["t-coordinate"].shape == (7,)
    with pytest.raises(ValueError, match=r"tensor\.hdf5 exists already"):
        export_pdebench(cases["tensor"], tmp_path / "tensor.hdf5")
    with pytest.raises(ValueError, match=r"Unknown layout 'tensr'. Did you mean 'tensor'\?"):
        export_pdebench(cases["tensor"], tmp_path / "b.hdf5", layout="tensr")


@pytest.mark.parametrize("layout", ["tensor", "fields", "groups"])
def test_parameters_and_known_fields_go_to_pdebenchs_layouts_and_back(tmp_path, layout):
    names = {"tensor": ("u",), "fields": ("density", "pressure", "Vx"), "groups": ("u", "v")}
    data = fino.from_array(
        noise(5, 6, len(names[layout]), 16), dt=0.25, extent=(0, 1), boundary="periodic",
        fields=names[layout], name="mine", parameters={"nu": np.arange(5.0), "g": 9.81},
        known={"depth": noise(16), "slope": noise(5, 16, seed=1)},
    )  # fmt: skip
    again = fino.open(export_pdebench(data, tmp_path / "a.hdf5", layout))
    assert again.parameters["nu"].tolist() == [0, 1, 2, 3, 4]
    assert again.card.known == ("depth", "slope")
    assert torch.equal(again.everything[3].given.known, data.everything[3].given.known)
    forced = fino.from_array(
        noise(5, 6, 1, 16), dt=1, extent=(0, 1), boundary="periodic", forcing={"tide": noise(6)}
    )
    with pytest.raises(ValueError, match="has forcing or a mask, for which PDEBench has no place"):
        export_pdebench(forced, tmp_path / "b.hdf5", "tensor")


def test_a_well_file_becomes_channels(tmp_path):
    data = fino.open(samples.well_file(tmp_path / "a.hdf5"))
    assert data.fields == ("pressure", "velocity_x", "velocity_y") and data.dt == 0.5
    assert data.shape == (4, 5, 3, 8, 12) and data.card.name == "stirred"
    assert np.array_equal(data.read([3])[0, :, 0], noise(4, 5, 8, 12)[3])
    assert np.array_equal(data.read([3])[0, :, 2], noise(4, 5, 8, 12, 2)[3, ..., 1])
    assert data.grid.boundary == ("periodic", "neumann") and data.card.parameters == {"Re": 100.0}
    assert np.allclose(data.grid.coordinates()[0], np.arange(8) / 8)
    assert data.card.known == ("depth",) and data.card.flaws == ()
    assert np.array_equal(data.test[0].given.known[0, 0], noise(8, 12))


def test_a_well_folder_is_cut_as_its_folders_say(tmp_path):
    for part, count in (("train", 4), ("valid", 2), ("test", 3)):
        (tmp_path / "data" / part).mkdir(parents=True)
        samples.well_file(tmp_path / "data" / part / "a.hdf5", count)
    data = fino.open(tmp_path)
    assert [len(p) for p in (data.train, data.validation, data.test)] == [4, 2, 3]
    assert np.array_equal(data.test.read([2])[0, :, 0], noise(3, 5, 8, 12)[2])


def test_what_a_well_file_holds_for_each_sample_is_given_to_models(tmp_path):
    """Scalars of the file, of its samples and of its times; constant fields along some axes."""
    for part, count, reynolds in (("train", 4, 100.0), ("test", 3, 50.0)):
        (tmp_path / part).mkdir()
        path = samples.well_file(tmp_path / part / "a.hdf5", count)
        with h5py.File(path, "r+") as file:
            file.attrs["Re"] = reynolds
            scalars = file.create_group("scalars")
            scalars["nu"], scalars["tide"] = np.arange(count) + reynolds, np.arange(5.0)
            scalars["tide"].attrs["time_varying"] = True
            scalars["tide"].attrs["sample_varying"] = False
            profile = file["t0_fields"].create_dataset("profile", data=noise(12))
            profile.attrs["dim_varying"] = [False, True]
            profile.attrs["sample_varying"] = profile.attrs["time_varying"] = False
            names = [*file["t0_fields"].attrs["field_names"], "profile"]
            file["t0_fields"].attrs["field_names"] = names
    data = fino.open(tmp_path)
    assert data.parameters["Re"].tolist() == [100.0] * 4 + [50.0] * 3
    assert data.parameters["nu"].tolist() == [100, 101, 102, 103, 50, 51, 52]
    assert data.card.signals == ("tide",) and data.card.known == ("depth", "profile")
    given = data.train[1].given
    assert given.parameters.tolist() == [[100.0, 101.0]]
    assert np.array_equal(given.known[0, 1], np.broadcast_to(noise(12), (8, 12)))
    assert given.signals[0, :, 0].tolist() == [1, 2, 3, 4]  # from the newest frame shown on
    again = save(data, tmp_path / "again.h5")
    assert again.hash == data.hash and again.card.known == data.card.known


def test_files_that_are_not_data_are_refused_in_one_line(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^.*nothing\.h5 does not exist\.$"):
        fino.open(tmp_path / "nothing.h5")
    cases = {
        "a.doc": (b"hello", r"cannot be opened: it is none of the formats we know \(numpy"),
        "a.txt": (b"hello", r"cannot be opened: it is a table without numbers"),
        "a.nc": (b"<html>not found</html>", r"It is not NetCDF, although its name says so"),
        "a.npy": (b"\x93NUMPY", r"it is damaged or cut short"),
        "empty.h5": (b"", r"empty\.h5 is empty"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            fino.open(tmp_path / name)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["temperature"] = noise(3)
    with pytest.raises(
        ValueError, match=r"it has no array of trajectories in it. It holds temperature \(3,\)"
    ):
        fino.open(tmp_path / "other.h5")
    (tmp_path / "folder").mkdir()
    with pytest.raises(
        ValueError, match=r"folder cannot be opened: the folder has no data files in it \(\.h5"
    ):
        fino.open(tmp_path / "folder")
    with pytest.raises(ValueError, match=r"cannot be opened: it takes no option 'boundry'"):
        fino.open(samples.tensor_file(tmp_path / "t.h5"), boundry="periodic")


@pytest.mark.parametrize("kind", ["native", "tensor", "groups", "era"])
def test_a_file_cut_short_is_said_to_be(tmp_path, kind):
    path = samples.FILES[kind](tmp_path / "a.h5")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(ValueError, match=r"a\.h5 cannot be opened: .*it is damaged or cut short"):
        fino.open(path)


def test_a_nan_in_a_file_is_refused_by_its_sample_and_can_be_left_out(tmp_path):
    u = noise(6, 5, 16)
    u[4, 2, 3] = np.nan
    path = samples.tensor_file(tmp_path / "a.h5", u)
    data = fino.open(path)  # one sample does not close the file
    with pytest.raises(ValueError, match=r"sample 4 has NaN or infinite values. Leave it out: .*4"):
        data.read([4])
    assert torch.isfinite(data.select([0, 1, 2, 3, 5]).read(range(5))).all()
    rest = fino.open(path, leave_out=[4])
    assert np.array_equal(rest.read(range(5))[:, :, 0], u[[0, 1, 2, 3, 5]])
    with pytest.raises(ValueError, match=r"leave_out should be sample numbers from 0 to 5, got 6"):
        fino.open(path, leave_out="6")


def test_an_array_that_lies_in_another_file_is_refused(tmp_path):
    """Its place in this file would be read, which holds something else."""
    samples.tensor_file(tmp_path / "other.h5")
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["tensor"] = h5py.ExternalLink("other.h5", "tensor")
        file["beside"] = noise(100)
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        external = [(str(tmp_path / "raw.bin"), 0, 6 * 5 * 16 * 4)]
        file.create_dataset("tensor", (6, 5, 16), "f4", external=external)
    for name in ("linked.h5", "raw.h5"):
        with pytest.raises(ValueError, match=r"the array /tensor lies in another file. Copy it"):
            fino.open(tmp_path / name)


def open_mutants(tmp_path: Path, kinds: dict[str, int]) -> None:
    """Every mutant opens and reads, or is refused in one line; ours never give wrong numbers."""
    for kind, count in kinds.items():
        path = samples.FILES[kind](tmp_path / f"{kind}.h5")
        content, truth = path.read_bytes(), fino.open(path)
        right = truth.read(range(len(truth)))
        mutant = tmp_path / "mutant.h5"
        refused = 0
        for i in range(count):
            mutant.write_bytes(mutated(content, random.Random(f"{kind} {i}")))
            try:
                data = fino.open(mutant)
                numbers = data.read(range(len(data)))
            except ValueError as error:
                assert "\n" not in str(error) and str(mutant) in str(error), (kind, i)
                refused += 1
                continue
            if kind.startswith("native"):
                assert np.array_equal(numbers, right), (kind, i)
        assert refused > 0.2 * count, kind


def test_mutated_files_are_opened_or_refused_in_one_line(tmp_path):
    each = dict.fromkeys(samples.FILES, 20)
    open_mutants(tmp_path, {**each, "native": 160})


@pytest.mark.slow
def test_five_thousand_mutated_files_are_opened_or_refused_in_one_line(tmp_path):
    open_mutants(tmp_path, dict.fromkeys(samples.FILES, 625))


def test_symmetries_and_directions_of_a_file_are_told_in_words(tmp_path):
    path = tmp_path / "flow.npy"
    np.save(path, np.random.default_rng(0).random((6, 8, 3, 10, 10)))
    ways = {"axes": "sample time channel y x", "dt": 0.1, "extent": "0:1", "boundary": "periodic"}
    told = fino.open(path, **ways, symmetries="shift,flip", directions="-,x,y").card
    assert told.symmetries == ("shift", "flip")
    assert told.directions == (None, 1, 0)
    with pytest.raises(ValueError, match=r"'-' for a scalar or one of y, x for each field, .*'z'"):
        fino.open(path, **ways, symmetries="flip", directions="-,z,y")
    with pytest.raises(ValueError, match=r"Unknown symmetry 'flips'\. Did you mean 'flip'\?"):
        fino.open(path, **ways, symmetries="flips")
