"""Data sets in memory: order, parts, strides, windows, scaling."""

import ast
import inspect
import itertools
import pickle
import textwrap

import numpy as np
import pytest
import torch

import fino
from fino.data.card import Card, Cost
from fino.data.split import Split, split_by_rule
from fino.model.scaling import fit_frames, fit_increments
from fino.training.batch import windows


def numbered(samples: int = 20, frames: int = 21, channels: int = 2, points: int = 16):
    """An array whose value says where it is."""
    s, t, c, x = np.ogrid[:samples, :frames, :channels, :points]
    return (1000 * s + 10 * t + c + x / 100).astype(np.float32)


def dataset(**facts):
    return fino.from_array(numbered(), dt=0.1, extent=(0, 1), boundary="periodic", **facts)


def test_an_array_comes_back_as_it_went_in():
    u = numbered()
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    assert data.shape == (20, 21, 2, 16) and len(data) == 20
    assert data.read([3, 1], start=4, length=2).numpy().tolist() == u[[3, 1], 4:6].tolist()
    assert data.read([0]).dtype == torch.float32
    assert data.grid.spacing == (1 / 16,) and data.dt == 0.1 and data.channels == 2
    assert not data.steady and data.path is None and data.fields == ("u0", "u1")


def test_a_torch_tensor_is_as_good_as_an_array_and_changing_it_later_changes_nothing():
    u = torch.from_numpy(numbered())
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    before = data.read([2]).clone()
    u += 1
    assert torch.equal(before, data.read([2]))
    data.read([2]).zero_()
    assert torch.equal(before, data.read([2]))


@pytest.mark.parametrize("samples", [3, 4, 10, 11, 57, 1000])
@pytest.mark.parametrize("rule", ["first", "last"])
def test_the_three_parts_are_disjoint_and_complete(samples, rule):
    split = split_by_rule(samples, rule)
    parts = [split.samples(name) for name in ("train", "validation", "test")]
    assert all(parts)
    assert sorted(i for part in parts for i in part) == list(range(samples))
    assert len(parts[2]) == max(1, samples // 10)
    assert (0 in parts[2]) == (rule == "first")


def test_parts_read_their_own_samples_and_cut_history_from_future():
    u = numbered()
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    assert data.test.samples == (0, 1) and data.validation.samples == (2,)
    assert len(data.train) == 17 and data.train.shape == (17, 21, 2, 16)
    sample = data.train[0]
    assert sample.index == 3 and sample.history.shape == (10, 2, 16)
    assert np.array_equal(torch.cat([sample.history, sample.future]).numpy(), u[3])
    assert np.array_equal(data.train.read([1, 0], 5, 3).numpy(), u[[4, 3], 5:8])
    assert np.array_equal(data.test.all().numpy(), u[:2])
    assert [s.index for s in data.test] == [0, 1]
    assert sample.given.history.shape == (1, 10, 2, 16)


def test_what_a_model_is_given_begins_where_the_task_does_or_at_any_frame():
    u = numbered()
    part = dataset().train
    given, future = part.begin([0, 4], history=3)
    assert np.array_equal(given.history, u[[3, 7], 7:10]) and np.array_equal(future, u[[3, 7], 10:])
    given, future = part.begin([1], history=12)
    assert np.array_equal(given.history, u[[4], :12]) and np.array_equal(future, u[[4], 12:])
    given, future = part.window([1], start=5, history=2, steps=3)
    assert np.array_equal(given.history, u[[4], 5:7]) and np.array_equal(future, u[[4], 7:10])
    with pytest.raises(ValueError, match="history 21 leaves nothing to predict in trajectories of"):
        part.begin([0], history=21)


def test_how_many_frames_are_shown_is_a_fact_of_the_card():
    data = dataset().with_history(4)
    assert data.test[1].history.shape[0] == 4 and data.test[1].future.shape[0] == 17
    assert "the first 4 are shown" in data.card.markdown()
    assert Card.from_json(data.card.to_json()).history == 4
    assert data.strided(time=2).history == 4 and data.strided(time=7).history == 2
    assert data.with_history(None).history == 10
    for wrong in (0, 21):
        with pytest.raises(ValueError, match=f"between 1 and 20 of 21 frames .* got {wrong}"):
            data.with_history(wrong)


def test_a_split_can_be_counted_shared_or_listed_but_never_overlaps():
    data = dataset()
    assert data.with_split(test=4, validation=2).train.samples == tuple(range(6, 20))
    assert len(data.with_split(train=0.5, test=0.25).test) == 5
    chosen = data.with_split(train=[5, 6, 9], test=[0])
    assert chosen.train.samples == (5, 6, 9) and len(chosen.validation) == 0
    assert data.with_split("last").test.samples == (18, 19)
    with pytest.raises(ValueError, match=r"^sample 5 is in the (test|train) part and in the"):
        data.with_split(train=[5, 6], test=[5])
    with pytest.raises(ValueError, match=r"wants 30 samples but only 20 of 20 are left"):
        data.with_split(train=30)
    with pytest.raises(ValueError, match=r"sample numbers from 0 to 19, got 3 … 20"):
        data.with_split(test=[3, 20])
    with pytest.raises(ValueError, match=r"^Unknown split 'frist'. Did you mean 'first'\?$"):
        data.with_split("frist")
    with pytest.raises(ValueError, match=r"^the validation part of array is empty"):
        chosen.validation.all()


def test_strides_keep_every_nth_frame_and_cell_and_the_card_follows():
    u = numbered()
    data = dataset(symmetries=("shift", "flip")).strided(space=3, time=5)
    assert data.shape == (20, 5, 2, 6) and data.dt == 0.5
    assert np.array_equal(data.read([7], 1, 3).numpy(), u[[7], 5:16:5, :, ::3])
    assert data.grid.coordinates()[0] == pytest.approx((np.arange(0, 16, 3) + 0.5) / 16)
    twice = dataset().strided(space=2).strided(space=2, time=5)
    assert np.array_equal(twice.read([7]).numpy(), u[[7], ::5, :, ::4])
    assert twice.card.stride_space == (4,) and twice.card.stride_time == 5
    assert twice.hash != dataset().hash


def test_striding_a_bounded_axis_loses_the_mirror_symmetry():
    facts = {"symmetries": ("shift", "flip", "sign")}
    assert dataset(**facts).strided(space=2).card.symmetries == ("shift", "flip", "sign")
    u = numbered(channels=1)
    bounded = fino.from_array(
        u, dt=1, extent=(0, 1), boundary="neumann", symmetries=("flip", "sign")
    )
    assert bounded.strided(time=2).card.symmetries == ("flip", "sign")
    assert bounded.strided(space=2).card.symmetries == ("sign",)


def test_selected_samples_stay_in_their_parts():
    data = dataset().select([19, 0, 2, 5])
    assert data.read([0])[0, 0, 0, 0] == 19000
    assert data.test.samples == (1,) and data.validation.samples == (2,)
    assert data.train.samples == (0, 3) and data.card.samples == 4


def test_the_hash_is_of_the_numbers_alone():
    assert dataset().hash == dataset(title="another name").hash
    u = numbered()
    u[19, 20, 1, 15] += 1
    other = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    assert other.hash != dataset().hash and len(other.hash) == 64


@pytest.mark.parametrize(
    ("u", "message"),
    [
        (np.zeros((4, 5)), r"should be \(sample, time, channel, \*space\), got \(4, 5\)"),
        (np.zeros((4, 5, 16)), r"u\[:, :, None\] adds the channel"),
        (np.zeros((4, 5, 16, 16, 2)), r"the last axis looks like channels. Use np.moveaxis"),
        (np.zeros((4, 1, 1, 16)), "a trajectory needs at least 2 frames"),
        (np.zeros((4, 0, 1, 16)), "it is empty"),
        (np.zeros((1, 2, 1, 4, 4, 4, 4)), "at most three axes of space"),
        (np.zeros((4, 5, 1, 16), dtype=complex), "should hold real numbers, got complex128"),
    ],
)
def test_an_array_in_the_wrong_order_is_refused_with_the_right_one(u, message):
    with pytest.raises(ValueError, match=message):
        fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")


def test_wrong_fields_extent_or_boundary_are_refused_in_one_line():
    u = numbered(channels=3)
    with pytest.raises(ValueError, match=r"channel should be 2 \(h, q\) but is 3\."):
        fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic", fields=("h", "q"))
    with pytest.raises(ValueError, match=r"extent should be \(low, high\), or one such pair"):
        fino.from_array(u, dt=1, extent=1.0, boundary="periodic")
    with pytest.raises(ValueError, match=r"Unknown boundary 'perodic'. Did you mean 'periodic'"):
        fino.from_array(u, dt=1, extent=(0, 1), boundary="perodic")
    with pytest.raises(ValueError, match="dt should be a positive time, got 0"):
        fino.from_array(u, dt=0, extent=(0, 1), boundary="periodic")
    with pytest.raises(ValueError, match="steady data should have time 2"):
        fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic", steady=True)


def test_a_nan_is_refused_by_sample_and_frame():
    u = numbered()
    u[7, 13, 1, 3] = np.nan
    with pytest.raises(ValueError, match=r"^sample 7 has NaN .* first in frame 13\."):
        fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic")


def test_reading_past_the_end_names_what_there_is():
    with pytest.raises(ValueError, match=r"^frames 18 to 23 were asked for, but array has frames"):
        dataset().read([0], start=18, length=5)
    with pytest.raises(ValueError, match=r"^sample 20 was asked for, but array has samples 0 to"):
        dataset().read([20])


def test_windows_are_a_pure_function_of_seed_and_step():
    first = [windows(3, step, 4, 10, 21, 6) for step in range(5)]
    again = windows(3, 4, 4, 10, 21, 6)
    assert all(np.array_equal(a, b) for a, b in zip(first[4], again, strict=True))
    seen = np.concatenate([samples for samples, _ in first])
    assert sorted(seen[:10]) == list(range(10)) and sorted(seen[10:]) == list(range(10))
    starts = np.concatenate([windows(3, step, 4, 10, 21, 6)[1] for step in range(200)])
    assert starts.min() == 0 and starts.max() == 15
    assert not np.array_equal(windows(3, 0, 10, 10, 21, 6)[0], windows(4, 0, 10, 10, 21, 6)[0])
    with pytest.raises(ValueError, match="a window of 22 frames does not fit"):
        windows(0, 0, 1, 1, 21, 22)


def test_scaling_is_fitted_on_the_training_part_alone():
    data = dataset()
    u = data.train.all().double()
    scaling = fit_frames(data.train)
    assert scaling.mean.tolist() == pytest.approx(u.mean(dim=(0, 1, 3)).tolist())
    assert scaling.std.tolist() == pytest.approx(u.std(dim=(0, 1, 3), unbiased=False).tolist())
    steps = fit_increments(data.train)
    assert steps.mean.tolist() == pytest.approx([10, 10], rel=1e-5)
    assert steps.std.max() < 1e-4
    still = fino.from_array(np.full((4, 5, 1, 8), 3.0), dt=1, extent=(0, 1), boundary="periodic")
    with pytest.warns(UserWarning, match="there is nothing to learn"):
        assert fit_frames(still.train).std.tolist() == [1.0]  # nothing to scale by
    with pytest.raises(ValueError, match="should be fitted on the train part alone, got the test"):
        fit_frames(data.test)


@pytest.mark.parametrize("at_once", [1, 50, 2**16])
def test_scaling_does_not_depend_on_how_many_values_are_looked_at_at_a_time(monkeypatch, at_once):
    u = np.random.default_rng(0).standard_normal((6, 7, 2, 8))
    data = fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic")
    changes = data.train.all().double().diff(dim=1)
    monkeypatch.setattr("fino.model.scaling._PIECE", at_once)
    steps = fit_increments(data.train)
    assert steps.mean.tolist() == pytest.approx(changes.mean(dim=(0, 1, 3)).tolist())
    assert steps.std.tolist() == pytest.approx(changes.std(dim=(0, 1, 3), unbiased=False).tolist())


def test_the_card_builds_its_grid_once_and_a_changed_card_has_its_own():
    card = dataset().card
    assert card.grid is card.grid and "grid" not in card.model_dump()
    for again in (pickle.loads(pickle.dumps(card)), Card.from_json(card.to_json()), card.changed()):
        assert again == card and again.grid == card.grid
    assert card.changed(points=(32,)).grid.points == (32,)
    assert card.strided(2, 1).grid.points == (8,)


def test_every_fact_of_card_and_split_is_explained_where_it_is_declared():
    for kind in (Card, Cost, Split):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)
        explained = {
            fact.target.id
            for fact, words in itertools.pairwise(body.body)
            if isinstance(fact, ast.AnnAssign) and isinstance(fact.target, ast.Name)
            if isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant)
        }
        assert explained == set(kind.model_fields)


def test_a_card_goes_to_json_and_back_and_reads_as_a_page():
    data = dataset(title="Numbers", flaws=("made up",), parameters={"beta": 2.0}, speed=1.5)
    card = data.card
    assert Card.from_json(card.to_json()) == card
    page = card.markdown()
    assert page.startswith("# Numbers") and "* made up" in page and "beta = 2.0" in page
    assert "test 2" in page
    with pytest.raises(ValueError, match=r"^Unknown symmetry 'flop'. Did you mean 'flip'\?$"):
        dataset(symmetries=("flop",))
    with pytest.raises(
        ValueError, match=r"directions should be one axis \(or None\) for each of 2"
    ):
        dataset(directions=(0,))
    with pytest.raises(ValueError, match=r"directions should be axes below 1, got \(None, 1\)"):
        dataset(directions=(None, 1))
    assert "| vectors | u1 along axis 0 |" in dataset(directions=(None, 0)).card.markdown()
    with pytest.raises(ValueError, match=r"^Unknown setting 'titel'. Did you mean 'title'\?$"):
        dataset(titel="x")
    with pytest.raises(ValueError, match="the data card is not JSON"):
        Card.from_json("{")
