"""SOAP is what its paper says, remembers itself, and gains what it is there to gain."""

from __future__ import annotations

import pytest
import torch

from fino.training.optimizers import Soap, _first_basis, make_optimizer
from fino.training.settings import TrainingSettings


def crooked(seed: int = 0, sides: tuple[int, ...] = (6, 5)):
    """A quadratic whose axes are far from the coordinates': left and right factors are mixed."""
    draw = torch.Generator().manual_seed(seed)
    left = torch.randn(sides[0], sides[0], generator=draw) @ torch.diag(
        torch.logspace(0, -2, sides[0])
    )
    right = torch.randn(sides[1], sides[1], generator=draw) @ torch.diag(
        torch.logspace(0, -2, sides[1])
    )
    target = torch.randn(sides, generator=draw)
    return lambda w: (left @ (w - target) @ right).square().mean()


def descend(optimizer, weights, measure, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = sum(measure(w) for w in weights)
        loss.backward()
        optimizer.step()
    return float(sum(measure(w) for w in weights).detach())


def test_soap_descends_a_crooked_valley_where_adam_stalls():
    measure = crooked()
    ends = {}
    for cls in (Soap, torch.optim.Adam):
        w = torch.nn.Parameter(torch.zeros(6, 5))
        ends[cls] = descend(cls([w], lr=0.02, betas=(0.9, 0.95)), [w], measure, 300)
    assert ends[Soap] < 0.5 * ends[torch.optim.Adam]


def test_one_weight_follows_the_algorithm_written_out():
    torch.manual_seed(0)
    gradients = [torch.randn(4, 3, dtype=torch.float64) for _ in range(12)]
    w = torch.nn.Parameter(torch.zeros(4, 3, dtype=torch.float64))
    optimizer = Soap([w], lr=0.1, betas=(0.9, 0.8), every=5)

    left = right = q_left = q_right = None
    v, m, x = torch.zeros(4, 3).double(), torch.zeros(4, 3).double(), torch.zeros(4, 3).double()
    for k, g in enumerate(gradients, start=1):
        w.grad = g.clone()
        optimizer.step()
        if k == 1:
            left, right = g @ g.T, g.T @ g
            q_left, q_right = _first_basis(torch.stack([left]))[0], _first_basis(right[None])[0]
        m = 0.9 * m + 0.1 * g
        v = 0.8 * v + 0.2 * (q_left.T @ g @ q_right) ** 2
        unit = (q_left.T @ m @ q_right / (1 - 0.9**k)) / ((v / (1 - 0.8**k)).sqrt() + 1e-8)
        x = x - 0.1 * q_left @ unit @ q_right.T
        left, right = 0.8 * left + 0.2 * g @ g.T, 0.8 * right + 0.2 * g.T @ g
        if k % 5 == 0:
            order = torch.diagonal(q_left.T @ left @ q_left).argsort(descending=True)
            v, q_left = v[order], torch.linalg.qr((left @ q_left)[:, order])[0]
            order = torch.diagonal(q_right.T @ right @ q_right).argsort(descending=True)
            v, q_right = v[:, order], torch.linalg.qr((right @ q_right)[:, order])[0]
        torch.testing.assert_close(w.detach(), x)


def test_rounding_does_not_choose_the_basis_where_a_gradient_does_not_fill_the_space():
    torch.manual_seed(0)
    g = torch.randn(1, 6)
    bases = [_first_basis((h.T @ h)[None])[0] for h in (g, g * (1 + 1e-6 * torch.randn(1, 6)))]
    overlap = (bases[0] * bases[1]).sum(dim=0).abs()
    torch.testing.assert_close(overlap, torch.ones(6), rtol=0, atol=1e-4)


def test_weights_of_one_shape_do_not_disturb_each_other_by_being_stacked():
    measures = [crooked(1), crooked(2)]
    together = [torch.nn.Parameter(torch.zeros(6, 5)) for _ in measures]
    optimizer = Soap(together)
    alone = [torch.nn.Parameter(torch.zeros(6, 5)) for _ in measures]
    singles = [Soap([w]) for w in alone]
    for _ in range(25):
        for ws in (together, alone):
            for w, measure in zip(ws, measures, strict=True):
                w.grad = torch.autograd.grad(measure(w), w)[0]
        optimizer.step()
        for single in singles:
            single.step()
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_biases_scalars_and_long_axes_get_plain_adam():
    torch.manual_seed(0)
    shapes = [(), (7,), (3, 400)]
    ours = [torch.nn.Parameter(torch.zeros(s)) for s in shapes]
    theirs = [torch.nn.Parameter(torch.zeros(s)) for s in shapes]
    soap = Soap(ours, lr=0.01, betas=(0.9, 0.99), longest=2)
    adam = torch.optim.Adam(theirs, lr=0.01, betas=(0.9, 0.99))
    for _ in range(10):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        soap.step()
        adam.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["soap", "adamw", "adam", "muon"])
def test_an_optimiser_restored_from_its_tensors_goes_on_bit_for_bit(name):
    settings = TrainingSettings(optimizer=name, weight_decay=0.01)

    def network():
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Conv1d(2, 4, 3), torch.nn.Flatten(), torch.nn.Linear(8, 3)
        )

    def go(net, optimizer, first, last):
        for step in range(first, last):
            x = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step(0.01)

    whole = network()
    go(whole, make_optimizer(whole, settings), 0, 25)
    half = network()
    first = make_optimizer(half, settings)
    go(half, first, 0, 13)
    second = make_optimizer(half, settings)
    second.restore(first.tensors())
    go(half, second, 13, 25)
    for a, b in zip(whole.parameters(), half.parameters(), strict=True):
        assert torch.equal(a, b)
