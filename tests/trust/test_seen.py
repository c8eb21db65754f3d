"""A start that is unlike the training data is named; rollouts that leave its range stop or warn."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.evaluation.coverage import Coverage
from fino.trust.bands import calibrate
from fino.trust.guards import Diverged, Seen, limit_by

POINTS, FRAMES = 32, 14


def travelling(samples=120, speed=1.0, size=1.0, seed=0, **facts):
    """Two waves of random size and phase that move `speed` cells a step."""
    draw = np.random.default_rng(seed)
    x = np.arange(POINTS) - speed * np.arange(FRAMES)[:, None]
    u = draw.normal(size=(samples, 1, 1)) * 0.1 + np.zeros((samples, FRAMES, POINTS))
    for wave in (1, 2):
        amplitude, phase = (
            draw.uniform(0.5, 1, (samples, 1, 1)),
            draw.uniform(0, 6, (samples, 1, 1)),
        )
        u += size * amplitude * np.sin(2 * np.pi * wave * x / POINTS + phase)
    return fino.from_array(
        u[:, :, None], dt=0.1, extent=(0, 1), boundary="periodic", fields=("h",), history=4, **facts
    )


@pytest.fixture(scope="module")
def trained():
    """A model that is right but for a little, with what its training saw."""
    data = travelling()
    model = fino.build("fino", data, predict="linear", width=4, levels=0).eval()
    model.output_std.fill_(1e-3)
    model.trust = calibrate(model, data)
    return model, data


def said(model, start, steps=2, **options):
    """The lines that a rollout warns with."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fino.rollout(model, start, steps, **options)
    return [str(warning.message) for warning in found]


def test_starts_of_the_test_part_are_like_those_of_training(trained):
    model, _ = trained
    fresh = travelling(40, seed=1)
    alarms = [bool(said(model, sample)) for sample in fresh.train]
    assert sum(alarms) <= 0.1 * len(alarms)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (
            lambda: travelling(size=5.0).test[0].history,
            "h (reaches|falls|spreads|changes|varies)",
        ),
        (
            lambda: travelling(speed=2.0).test[0].history,
            r"h moves \d|the motion of h is|the model misses h",
        ),
        (
            lambda: travelling().test[0].history + 0.1 * torch.randn(4, 1, POINTS),
            "the model misses h|the motion of h",
        ),
        (lambda: torch.zeros(4, 1, POINTS), "h"),
    ],
)
def test_what_is_unlike_the_training_data_is_named_in_one_line(trained, start, words):
    torch.manual_seed(0)
    model, _ = trained
    lines = said(model, start())
    assert lines[0].startswith("Sample 0 starts unlike the training data: ")
    assert "training saw" in lines[0] and "\n" not in lines[0]
    assert re.search(words, lines[0]), lines[0]


def test_scores_count_the_starts_that_a_rollout_warns_of(trained):
    """Limits that few starts have set count only where a number is out of its range, too."""
    model, data = trained
    given, future = data.test.begin(range(len(data.test)), 4)
    noise = 0.02 * torch.arange(len(data.test)).view(-1, 1, 1, 1)
    given = replace(given, history=given.history + noise * torch.randn(given.history.shape))
    usual = model.trust
    for starts in (90, 4):
        seen = {**usual["seen"], "starts": starts, "limit": [1.0, 1.0]}
        model.trust = {**usual, "seen": seen}
        coverage = Coverage(fino.find_run(model, data))
        coverage.add(given, future, future)
        said_of = [bool(said(model, history)) for history in given.history]
        assert coverage.alarms == said_of and sum(said_of) > 0
    model.trust = usual


def test_strict_refuses_it_before_any_step(trained):
    model, data = trained
    steps = []
    with pytest.raises(ValueError, match=r"starts unlike the training data: .*training saw"):
        fino.rollout(model, 9 * data.test[0].history, 3, strict=True, progress=steps.append)
    assert not steps
    assert fino.rollout(model, data.test[0], 3, strict=True).shape == (3, 1, POINTS)


def test_a_peak_is_found_where_it_is_also_on_a_domain_larger_than_that_of_training(trained):
    model, data = trained
    start = torch.cat([data.test[i].history for i in range(4)], dim=2)
    start = start.clone()
    start[-1, 0, 101] += 9.0
    (line, *_) = said(model, start, steps=1, tile=32)
    assert "at cell (101)" in line or "at cell (100)" in line


def test_a_rollout_that_leaves_the_range_of_training_warns_once_and_far_beyond_it_stops(trained):
    model, data = trained
    seen = Seen.of(model)
    low, high = seen.range[0]
    start = data.test[0].history

    def grow(factor):
        grown = fino.build("fino", data, predict="linear", width=4, levels=0).eval()
        grown.output_std.zero_()
        grown.prior.load_state_dict(model.prior.state_dict())
        with torch.no_grad():
            grown.prior.weight.mul_(factor)
        # The start is not asked about, which this model would already miss.
        grown.trust = {"seen": {**model.trust["seen"], "limit": [1e9, 1e9]}}
        return grown

    with pytest.warns(UserWarning, match="The rollout left what training saw in step") as found:
        fino.rollout(grow(1.1), start, 4)
    assert len(found) == 1
    with pytest.raises(Diverged, match=r"The rollout left what training saw in step \d of 4: h is"):
        fino.rollout(grow(1.1), start, 4, strict=True)
    with (
        warnings.catch_warnings(),
        pytest.raises(Diverged, match=r"The rollout diverged in step \d+ of 30: h .* training"),
    ):
        warnings.simplefilter("ignore")
        fino.rollout(grow(3.0), start, 30)
    assert low < float(start.min()) and float(start.max()) < high


def test_what_training_saw_survives_save_and_load_and_belongs_to_its_weights(trained, tmp_path):
    model, data = trained
    fino.save(model, tmp_path / "model")
    again = fino.load(tmp_path / "model")
    assert again.trust == model.trust
    other = fino.build("fino", data, width=4, levels=0)
    fino.save(other, tmp_path / "model", overwrite=True)
    assert fino.load(tmp_path / "model").trust is None
    fino.save(other, tmp_path / "other")
    fino.save(model, tmp_path / "model", overwrite=True)
    (tmp_path / "model" / "trust.json").rename(tmp_path / "other" / "trust.json")
    with pytest.raises(ValueError, match=r"trust.json was measured with other weights"):
        fino.load(tmp_path / "other")


def test_a_damaged_file_is_refused(trained, tmp_path):
    fino.save(trained[0], tmp_path / "model")
    path = tmp_path / "model" / "trust.json"
    path.write_text(path.read_text().replace("limit", "limits", 1))
    with pytest.raises(ValueError, match=r"trust\.json is damaged or was edited"):
        fino.load(tmp_path / "model")


def test_a_model_that_does_not_say_what_it_saw_cannot_be_strict(make_model, make_history):
    model = make_model((16,))
    with pytest.raises(ValueError, match="strict needs to know what training saw"):
        fino.rollout(model, make_history(model), 2, strict=True)


def test_parameters_outside_of_training_are_refused_if_strict():
    draw = np.random.default_rng(0)
    data = fino.from_array(
        draw.normal(size=(20, 6, 1, 16)),
        dt=0.1,
        extent=(0, 1),
        boundary="periodic",
        parameters={"nu": draw.uniform(1, 2, 20)},
        history=2,
    )
    model = fino.build("fino", data, width=4, levels=0).eval()
    model.trust = calibrate(model, data)
    with pytest.raises(ValueError, match=r"nu = 5 lies outside of the range"):
        fino.rollout(model, data.test[0], 2, parameters={"nu": 5.0}, strict=True)


def test_cells_outside_of_a_mask_do_not_count():
    data = travelling(mask=np.arange(POINTS) < 8)
    model = fino.build("fino", data, predict="increment", width=4, levels=0).eval()
    model.output_std.fill_(1e-3)
    trust = calibrate(model, data)
    low, high = trust["seen"]["range"][0]
    model.trust = trust
    given = data.test[0].given
    distance = float(Seen.of(model).distance(given))
    given.history[:, :, :, :8] = 50.0
    assert float(Seen.of(model).distance(given)) == pytest.approx(distance)
    assert -3 < low < high < 3


def test_typical_validation_starts_are_at_zero_and_older_files_count_from_training(trained):
    model, data = trained
    seen, given = Seen.of(model), data.validation.begin(range(len(data.validation)), 4)[0]
    numbers, names = seen.measure(given, model)
    typical = seen.in_limits(numbers, names).mean(0)
    torch.testing.assert_close(typical, torch.zeros_like(typical), atol=1e-4, rtol=0)
    older = {k: v for k, v in model.trust["seen"].items() if k != "usual"}
    limits = torch.tensor(seen.limit, dtype=torch.float64)
    expected = seen.distances(numbers, names) / limits
    torch.testing.assert_close(Seen(**older).in_limits(numbers, names), expected)


def test_a_validation_rollout_that_diverged_does_not_open_the_range(trained):
    model, data = trained
    seen, given = Seen.of(model), data.validation.begin(range(4), 4)[0]
    far = torch.tensor([1e30], dtype=torch.float64)
    low, high = limit_by(seen, model, given, -far, far).range[0]
    width = seen.range[0][1] - seen.range[0][0]
    assert high - low == pytest.approx(2 * width)


def test_training_starts_raise_a_limit_that_few_validation_starts_set_too_low(trained):
    model, data = trained
    seen, given = Seen.of(model), data.validation.begin(range(8), 4)[0]
    low, high = (end.float() for end in seen.bounds(0.0))
    alone = limit_by(seen, model, given, low, high)
    far = replace(given, history=4 * given.history)
    raised = limit_by(seen, model, given, low, high, [far])
    assert raised.limit[0] > 2 * alone.limit[0]
    assert (raised.usual, raised.limit[1]) == (alone.usual, alone.limit[1])
    near = [data.train.begin(range(8), 4)[0]]
    assert limit_by(seen, model, given, low, high, near).limit[0] >= alone.limit[0]
