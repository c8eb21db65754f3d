"""What every entry of METRICS promises."""

import pytest
import torch

from fino.metrics import METRICS

SPACES = [(32,), (24, 26), (26, 4, 5)]


def pair(space, samples=6):
    stream = torch.Generator().manual_seed(7)
    truth = torch.randn(samples, 4, 2, *space, generator=stream)
    return truth + 0.2 * torch.randn(truth.shape, generator=stream), truth


def weights_for(space):
    return torch.linspace(0.5, 1.5, space[0]).reshape(-1, *[1] * (len(space) - 1)).expand(space)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", METRICS)
def test_a_perfect_prediction_has_a_perfect_score(name, space):
    truth = pair(space)[1]
    value = METRICS[name](truth, truth, weights_for(space)).item()
    assert value == (4.0 if METRICS[name].higher_is_better else 0.0)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("batch", [1, 2, 4, 5])
def test_the_score_does_not_depend_on_the_batches(name, space, batch):
    metric, weights = METRICS[name], weights_for(space)
    prediction, truth = pair(space)
    whole = metric.per_sample(prediction, truth, weights)
    parts = torch.cat(
        [
            metric.per_sample(prediction[s : s + batch], truth[s : s + batch], weights)
            for s in range(0, len(truth), batch)
        ]
    )
    torch.testing.assert_close(parts, whole, rtol=1e-13, atol=1e-15)
    assert metric.join(parts).mean().item() == pytest.approx(
        metric(prediction, truth, weights).item(), rel=1e-13
    )


@pytest.mark.parametrize("name", METRICS)
def test_the_score_does_not_depend_on_the_order_of_samples(name):
    prediction, truth = pair((24, 26))
    weights = weights_for((24, 26))
    turned = METRICS[name](prediction.flip(0), truth.flip(0), weights).item()
    assert turned == pytest.approx(METRICS[name](prediction, truth, weights).item(), rel=1e-13)


@pytest.mark.parametrize("name", METRICS)
def test_values_come_for_every_sample(name):
    prediction, truth = pair((32,))
    values = METRICS[name].per_sample(prediction, truth, weights_for((32,)))
    assert values.shape[0] == 6
    assert values.shape[1] in (1, 4)
    assert values.ndim >= 3


@pytest.mark.parametrize("name", METRICS)
def test_the_interval_holds_the_score_and_is_repeatable(name):
    metric = METRICS[name]
    prediction, truth = pair((32,), samples=12)
    values = metric.per_sample(prediction, truth, weights_for((32,)))
    low, high = metric.interval(values)
    value = metric.join(values).mean().item()
    assert low <= value <= high
    assert metric.interval(values) == (low, high)
    assert metric.resample(values, draws=3).shape == (3,)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_words(name):
    metric = METRICS[name]
    assert metric.name == name
    assert len(metric.title) > 5
    assert metric.unit in ("field", "1", "steps")
