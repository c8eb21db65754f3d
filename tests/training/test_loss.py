"""The loss is the paper's, and its short cuts are exactly what they claim."""

from __future__ import annotations

import pytest
import torch
from little_data import begin, blobs, little_fino, waves

from fino.training.loss import LOSSES, Unroll, validate
from fino.training.settings import TrainingSettings


def window(data, history, horizon, batch=3):
    frames = data.train.read(range(batch), 0, history + horizon)
    return frames[:, :history], frames[:, history:]


def gradients(model):
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return found


@pytest.mark.parametrize("data", [waves(), blobs()], ids=["waves", "blobs"])
def test_equation_14_through_the_whole_trajectory_equals_a_loop_written_by_hand(data):
    model = little_fino(data, predict="frame").double()
    horizon = data.frames - model.history
    history, future = (u.double() for u in window(data, model.history, horizon))
    loss = Unroll(model, TrainingSettings.paper())(history, future)
    loss.backward()
    ours = gradients(model)

    by_hand = torch.zeros((), dtype=torch.float64)
    buffer = [history[:, k] for k in range(model.history)]
    for t in range(horizon):
        u_hat = model(torch.stack(buffer[-model.history :], dim=1))
        buffer.append(u_hat)
        for b in range(len(history)):
            by_hand = by_hand + ((u_hat[b] - future[b, t]) ** 2).sum() / len(history)
    by_hand.backward()

    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-7)
    for a, b in zip(ours, gradients(model), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


def test_the_papers_scheme_starts_at_the_first_frame_and_goes_to_the_last():
    from fino.training.batch import draw_batch
    from fino.training.schedule import horizon_at

    data = waves()
    model = little_fino(data, history=data.history)
    settings = TrainingSettings.paper(batch=4)
    ahead = data.frames - model.history
    assert horizon_at(0.0, ahead, settings.grow_from) == ahead
    batch = draw_batch(data.train, model, settings, step=7, horizon=ahead)
    assert batch.starts == (0, 0, 0, 0)
    whole = data.read(batch.samples)
    assert torch.equal(torch.cat([batch.given.history, batch.future], dim=1), whole)


def test_recomputing_instead_of_remembering_changes_no_gradient():
    data = blobs()
    model = little_fino(data)
    history, future = window(data, model.history, 4)
    Unroll(model, TrainingSettings())(history, future).backward()
    remembered = gradients(model)
    Unroll(model, TrainingSettings(recompute=True))(history, future).backward()
    for a, b in zip(remembered, gradients(model), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


def test_pushforward_is_one_step_from_where_the_model_itself_arrived():
    data = waves()
    model = little_fino(data)
    history, future = window(data, model.history, 3)
    Unroll(model, TrainingSettings(gradient="pushforward"))(history, future).backward()
    pushed = gradients(model)
    with torch.no_grad():
        buffer = history
        for _ in range(2):
            buffer = torch.cat([buffer[:, 1:], model(buffer).unsqueeze(1)], dim=1)
    Unroll(model, TrainingSettings())(buffer, future[:, 2:]).backward()
    for a, b in zip(pushed, gradients(model), strict=True):
        torch.testing.assert_close(a, b)


def test_truncating_at_the_horizon_is_the_full_gradient_and_earlier_is_not():
    data = waves()
    model = little_fino(data)
    history, future = window(data, model.history, 4)
    found = {}
    for name, changes in {
        "full": {},
        "four": {"gradient": "truncated", "truncate": 4},
        "one": {"gradient": "truncated", "truncate": 1},
    }.items():
        loss = Unroll(model, TrainingSettings(**changes))(history, future)
        loss.backward()
        found[name] = (loss.item(), gradients(model))
    assert found["full"][0] == found["four"][0] == found["one"][0]
    for a, b in zip(found["full"][1], found["four"][1], strict=True):
        assert torch.equal(a, b)
    assert any(
        not torch.allclose(a, b, rtol=1e-3)
        for a, b in zip(found["full"][1], found["one"][1], strict=True)
    )


def test_the_scaled_loss_of_predicting_no_change_is_the_mean_square_of_scaled_increments():
    data = waves()
    model = little_fino(data, predict="increment")
    with torch.no_grad():
        for p in model.network.head.parameters():
            p.zero_()
        model.output_mean.zero_()
    history, future = window(data, model.history, 1)
    loss = Unroll(model, TrainingSettings())(history, future)
    change = (future[:, 0] - history[:, -1]) / model.output_std.view(-1, 1)
    assert loss.item() == pytest.approx(change.square().mean().item(), rel=1e-5)


def test_losses_agree_on_what_is_perfect_and_grow_with_the_error():
    error = torch.randn(3, 2, 16, generator=torch.Generator().manual_seed(0))
    spread = torch.tensor([[0.5], [2.0]])
    for name, measure in LOSSES.items():
        assert measure(0 * error, spread) <= 1e-5, name
        assert measure(2 * error, spread) > measure(error, spread), name
    assert LOSSES["paper"](error, spread).item() == pytest.approx((error**2).sum().item() / 3)


def test_the_absolute_loss_is_a_mean_and_the_sobolev_loss_sees_how_rough_an_error_is():
    flat, spread = torch.full((2, 1, 8, 8), 0.5), torch.ones(1, 1, 1)
    rough = flat * (-1.0) ** torch.arange(8)
    assert LOSSES["absolute"](rough, spread).item() == pytest.approx(0.5)
    assert LOSSES["sobolev"](flat, spread).item() == pytest.approx(0.25)
    # Neighbours along one axis differ by twice the error.
    assert LOSSES["sobolev"](rough, spread).item() == pytest.approx(0.25 + 1.0)


def test_the_default_loss_weighs_channels_by_their_fields_and_begins_near_one():
    data = blobs()
    model = little_fino(data, predict="increment")
    history, future = window(data, model.history, 1)
    loss = Unroll(model, TrainingSettings())(history, future).item()
    error = model(history) - future[:, 0]
    fields = model.input_std.view(-1, 1, 1)
    factor = (model.output_std / model.input_std).square().mean()
    assert loss == pytest.approx(((error / fields).square().mean() / factor).item(), rel=1e-5)
    assert 0.1 < loss < 10


def test_validation_is_equation_15_over_the_whole_rollout():
    import fino

    data = blobs()
    model = little_fino(data)
    whole = data.validation.all()
    truth = whole[:, model.history :]
    prediction = fino.rollout(model, whole[:, : model.history], truth.shape[1])
    validation = validate(model, *begin(model, whole))
    full = (prediction - truth).square().sum().item() / len(truth)
    assert validation.full == pytest.approx(full, rel=1e-5)
    size = truth.flatten(3).square().mean(3).sqrt()
    off = (prediction - truth).flatten(3).square().mean(3).sqrt()
    assert validation.nrmse == pytest.approx((off / size).mean().item(), rel=1e-5)
    assert validation.diverged is None


def test_a_rollout_that_blows_up_is_judged_as_diverged():
    data = waves()
    model = little_fino(data)
    model.output_std.fill_(1e30)
    validation = validate(model, *begin(model, data.validation.all()))
    assert validation.full == float("inf")
    assert validation.diverged is not None
    assert validation.diverged >= 1
