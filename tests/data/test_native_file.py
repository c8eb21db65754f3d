"""The native file: the same numbers, the same bytes, and damage that is noticed."""

import importlib.util
import time

import h5py
import numpy as np
import pytest
from samples import noise

import fino
from fino.data.store import save


def sample_data(steady: bool = False, **facts):
    u = noise(6, 2 if steady else 5, 2, 8, 12)
    return fino.from_array(
        u, dt=0.1, extent=((0, 1), (-1, 2)), boundary=("periodic", "neumann"), steady=steady,
        fields=("h", "q"), parameters={"beta": 2.0, "h": 3, "kind": "a", "range": (1.0, 2.0)},
        **facts,
    )  # fmt: skip


@pytest.mark.parametrize("steady", [False, True])
def test_a_file_gives_back_the_numbers_and_the_card(tmp_path, steady):
    data = sample_data(steady, symmetries=("shift",), speed=2.5, units=("m", "m²/s"))
    disk = save(data, tmp_path / "a.h5")
    again = fino.open(tmp_path / "a.h5")
    assert again.card == disk.card == data.card
    assert np.array_equal(again.read(range(6)), data.read(range(6)))
    assert np.array_equal(again.read([4, 2], 1, 1), data.read([4, 2], 1, 1))
    assert again.hash == data.hash and again.path == tmp_path / "a.h5"
    strided = again.strided(space=(2, 3))
    assert np.array_equal(strided.read([1]), data.read([1])[..., ::2, ::3])


def test_the_same_data_give_the_same_bytes_whatever_the_hour(tmp_path):
    save(sample_data(), tmp_path / "a.h5")
    time.sleep(1.1)
    save(sample_data(), tmp_path / "b.h5")
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_an_existing_file_is_not_overwritten_unasked(tmp_path):
    save(sample_data(), tmp_path / "a.h5")
    with pytest.raises(ValueError, match=r"a\.h5 exists already"):
        save(sample_data(), tmp_path / "a.h5")
    save(sample_data(steady=True), tmp_path / "a.h5", overwrite=True)
    assert fino.open(tmp_path / "a.h5").steady


def test_a_flipped_bit_is_noticed_when_its_sample_is_read(tmp_path):
    data = save(sample_data(), tmp_path / "a.h5")
    content = bytearray((tmp_path / "a.h5").read_bytes())
    place = content.index(data.read([3]).numpy()[0, :, 1].tobytes())
    content[place + 17] ^= 4
    (tmp_path / "b.h5").write_bytes(content)
    damaged = fino.open(tmp_path / "b.h5")
    assert damaged.read([2]).shape == (1, 5, 2, 8, 12)
    with pytest.raises(ValueError, match=r"b\.h5 is damaged: sample 3 does not match its checksum"):
        damaged.read([3], 0, 1)


def test_another_layout_is_named_and_not_called_damaged(tmp_path):
    path = tmp_path / "waves.h5"
    save(sample_data(), path)
    with h5py.File(path, "r+") as file:
        file.attrs["layout"] = 7
    with pytest.raises(ValueError) as caught:
        fino.open(path)
    assert "it has layout 7 and this fino reads layout 1" in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_a_large_irregular_split_still_fits_on_the_card(tmp_path):
    u = noise(6_000, 2, 1, 2)
    data = fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic")
    data = data.with_split(train=range(0, 6_000, 2), test=range(1, 6_000, 2))
    assert save(data, tmp_path / "a.h5").test.samples == data.test.samples


@pytest.mark.peers
@pytest.mark.skipif(
    importlib.util.find_spec("the_well") is None,
    reason="the_well is not installed: pip install --no-deps the_well einops pyyaml",
)
@pytest.mark.parametrize("steady", [False, True])
def test_the_wells_own_loader_reads_the_same_numbers(tmp_path, steady):
    from the_well.data import WellDataset

    data = sample_data(steady, name="pond")
    save(data, tmp_path / "a.h5")
    u = np.moveaxis(data.read(range(6)).numpy(), 2, -1)
    if steady:
        peer = WellDataset(path=str(tmp_path), n_steps_input=1, n_steps_output=0)
        assert peer.metadata.constant_field_names[0] == ["input_h", "input_q"]
        for i in range(6):
            assert np.array_equal(peer[i]["constant_fields"], u[i, 0])
            assert np.array_equal(peer[i]["input_fields"], u[i, 1:])
        return
    peer = WellDataset(path=str(tmp_path), n_steps_input=2, n_steps_output=3)
    assert len(peer) == 6 and peer.metadata.dataset_name == "pond"
    assert peer.metadata.field_names[0] == ["h", "q"]
    for i in range(6):
        item = peer[i]
        assert np.array_equal(item["input_fields"], u[i, :2])
        assert np.array_equal(item["output_fields"], u[i, 2:])
        assert item["constant_scalars"].tolist() == [2.0, 3.0]
        assert item["boundary_conditions"].tolist() == [[2.0, 2.0], [1.0, 1.0]]
    x, y = data.grid.mesh()
    assert np.allclose(item["space_grid"], np.stack([x, y], axis=-1), atol=1e-6)
    assert np.allclose(item["output_time_grid"], [0.2, 0.3, 0.4])
