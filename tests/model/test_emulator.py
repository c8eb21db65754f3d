"""History in, next frame out: equations 11 and 13."""

import pytest
import torch

import fino
from fino.grid import Grid
from fino.model.emulator import Emulator, EmulatorSettings, assemble, position_channels
from fino.model.rollout import frames

WALLS = Grid((8, 12), ((0.0, 1.0), (-1.0, 1.0)), ("neumann", "periodic"))


class Recorder(torch.nn.Module):
    """A network that keeps what it was shown and answers with ones."""

    locality = fino.Locality((0, 0))

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x):
        self.seen = x
        return torch.ones(x.shape[0], self.outputs, *x.shape[2:])


def recording(predict="frame", grid=WALLS, **settings) -> Emulator:
    chosen = EmulatorSettings(
        model="fino", fields=("u", "v"), history=3, predict=predict, **settings
    )
    model = Emulator(Recorder(2), chosen, grid)
    model.input_mean.copy_(torch.tensor([1.0, 2.0]))
    model.input_std.copy_(torch.tensor([2.0, 4.0]))
    model.output_mean.copy_(torch.tensor([0.5, 0.0]))
    model.output_std.copy_(torch.tensor([10.0, 20.0]))
    return model


def test_frames_and_coordinates_become_channels_equation_11():
    model = recording(coordinates=True)
    history = torch.randn(2, 3, 2, 8, 12)
    model(history)
    scaled = (history - torch.tensor([1.0, 2.0]).view(2, 1, 1)) / torch.tensor([2.0, 4.0]).view(
        2, 1, 1
    )
    torch.testing.assert_close(model.network.seen[:, :6], scaled.reshape(2, 6, 8, 12))
    x, y = model.network.seen[0, 6:]
    torch.testing.assert_close(x[:, 0], torch.linspace(-1 + 1 / 8, 1 - 1 / 8, 8))
    torch.testing.assert_close(y[0], torch.linspace(-1 + 1 / 12, 1 - 1 / 12, 12))


def test_walls_are_marked_and_periodic_edges_are_not():
    channels = position_channels(WALLS, coordinates=False, edges=True)
    assert channels.shape == (2, 8, 12)
    assert channels[0, 0].eq(1).all() and channels[0, 1:].eq(0).all()
    assert channels[1, -1].eq(1).all() and channels[1, :-1].eq(0).all()
    assert EmulatorSettings(model="fino", fields=("u",), history=1, edges=True).inputs(WALLS) == 3


def test_without_positions_nothing_is_added():
    history = torch.randn(1, 3, 2, 8, 12)
    assert torch.equal(assemble(history, torch.zeros(0, 8, 12)), history.flatten(1, 2))


@pytest.mark.parametrize("predict", ["frame", "increment", "linear"])
def test_the_network_adds_to_what_needs_no_learning(predict):
    model = recording(predict)
    history = torch.randn(2, 3, 2, 8, 12)
    weights = torch.tensor([[0.5, 0.0], [0.0, 1.0], [2.0, -1.0]])
    if predict == "linear":
        model.prior.weight.copy_(weights)
    prior = {
        "frame": torch.zeros(2, 2, 8, 12),
        "increment": history[:, -1],
        "linear": (history * weights.view(3, 2, 1, 1)).sum(1),
    }[predict]
    correction = torch.tensor([10.5, 20.0]).view(2, 1, 1)
    torch.testing.assert_close(model(history), prior + correction)


def test_a_larger_domain_gets_walls_of_its_own_but_no_invented_coordinates():
    assert recording(edges=True).positions((16, 12))[1, -1].eq(1).all()
    with pytest.raises(ValueError, match="Build it with coordinates=False to run on other sizes"):
        recording(coordinates=True)(torch.zeros(1, 3, 2, 16, 12))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 3, 3, 8, 12), "c should be 2 but is 3"),
        ((1, 3, 2, 8), "history should have 2 space axes"),
        ((1, 2, 2, 8, 12), "history should hold at least 3 frames, got 2."),
    ],
)
def test_a_wrong_history_is_refused_in_words(shape, message):
    with pytest.raises(ValueError) as error:
        recording()(torch.zeros(shape))
    assert message in str(error.value)


def test_a_rollout_feeds_predictions_back_equation_13():
    """Fibonacci: û = u₋₁ + u₋₂ needs both a shifted buffer and its newest frame."""

    def stepper(history):
        return history[:, -1] + history[:, -2]

    stepper.history = 2
    start = torch.tensor([9.0, 1.0, 1.0]).view(1, 3, 1, 1)
    assert fino.rollout(stepper, start, 6).flatten().tolist() == [2, 3, 5, 8, 13, 21]


def test_a_rollout_can_be_streamed_without_end():
    stream = frames(lambda history: history[:, -1] + 1, torch.zeros(1, 1, 1, 4), 10_000)
    for count, frame in enumerate(stream, start=1):
        assert frame[0, 0, 0] == count
    assert count == 10_000


def test_a_history_without_a_batch_gives_a_trajectory_without_one():
    model = recording("increment")
    history = torch.randn(3, 2, 8, 12)
    alone = fino.rollout(model, history, 4)
    assert alone.shape == (4, 2, 8, 12)
    assert torch.equal(alone, fino.rollout(model, history[None], 4)[0])
