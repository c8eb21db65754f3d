"""Moved solutions are solutions, and what was moved can be moved back."""

from itertools import product

import pytest
import torch

from fino.data.symmetry import Move, directions_of, move_each
from fino.given import Given
from fino.pde import PROBLEMS

PLANE = [
    Move(shift, mirrored, swapped, negated)
    for shift, mirrored, swapped, negated in product(
        ({}, {0: 3, 1: 5}), ((), (0,), (0, 1)), (False, True), (False, True)
    )
]


@pytest.mark.parametrize("move", PLANE, ids=str)
def test_moving_back_undoes_every_move(move):
    directions = (None, 0, 1)
    frames = torch.randn(2, 3, 8, 8)
    moved = move.apply(frames, "history", directions)
    torch.testing.assert_close(move.undo(moved, directions, 1), frames)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("shallow-water-momenta", {"points": 32, "frames": 5, "splitting": "symmetric"}),
        ("euler-2d", {"points": 32, "frames": 4, "duration": 0.2, "gas": "own"}),
        ("diffusion-reaction-2d", {"points": 24, "frames": 4}),
    ],
)
def test_solvers_commute_with_the_symmetries_that_their_cards_declare(name, settings):
    """S(solve(u₀)) = solve(S u₀) with the whole state saved, moved back by `undo`."""
    problem = PROBLEMS[name](**settings)
    start = problem.draw(problem.grid, 0, [0])
    directions = directions_of(card_for(problem))["history"]
    mirrored = "flip" in problem.symmetries
    move = Move({}, (0, 1) if mirrored else (), "rotate" in problem.symmetries, False)
    moved = move.apply(torch.from_numpy(start), "history", directions).numpy()
    times = problem.times
    frames, others = (
        torch.from_numpy(problem.integrate(problem.grid, u.copy(), times)) for u in (start, moved)
    )
    back = move.undo(others[0], directions, 1)
    size = frames.abs().amax()
    torch.testing.assert_close(back / size, frames[0] / size, atol=2e-6, rtol=0)


def card_for(problem):
    from fino.data.generate import plan

    settings = {k: v for k, v in problem.model_dump().items() if k in type(problem).model_fields}
    return plan(problem.name, 1, 0, **settings).card


def test_what_is_given_beside_the_fields_is_moved_with_them():
    given = Given(torch.randn(1, 2, 1, 6), parameters=torch.tensor([[0.3, 2.0]]))
    directions = {"history": (None,), "parameters": (0, None)}
    moved, _ = move_each(given, given.history[:, :0], directions, [Move({}, (0,), False, False)])
    torch.testing.assert_close(moved.parameters, torch.tensor([[-0.3, 2.0]]))
    torch.testing.assert_close(moved.history, given.history.flip(-1))
