"""What every entry of PROBLEMS promises, tested on a small grid."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fino.data.card import SYMMETRIES
from fino.data.generate import plan
from fino.pde import PROBLEMS
from fino.training.batch import augment

SMALL = {"points": 16, "frames": 4, "duration": 0.06}

every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def small(problem, **changes):
    """The problem's settings, on a small grid and over a short time."""
    known = problem.settings.model_fields
    values = {name: value for name, value in {**SMALL, **changes}.items() if name in known}
    return problem.settings(**values)


def started(problem, samples=(0, 1), **changes):
    settings = small(problem, **changes)
    grid = problem.grid(settings)
    return settings, grid, problem.draw(settings, grid, 0, samples)


class Watched:
    """Settings that remember which of them were read."""

    def __init__(self, settings):
        self._settings, self.read = settings, set()

    def __getattr__(self, name):
        self.read.add(name)
        return getattr(self._settings, name)


@every_problem
def test_a_problem_says_what_it_is(problem):
    assert PROBLEMS[problem.name] is problem
    assert problem.title and problem.equation
    assert len(problem.fields) == len(problem.units) == len(set(problem.fields))
    assert set(problem.symmetries) <= set(SYMMETRIES)
    settings = small(problem)
    assert problem.solver(settings).strip()
    assert all("\n" not in flaw for flaw in problem.flaws(settings))
    speed = problem.speed(settings)
    assert speed is None or speed > 0


@every_problem
def test_every_setting_is_used(problem):
    settings = Watched(small(problem))
    grid, times = problem.grid(settings), problem.times(settings)
    start = problem.draw(settings, grid, 0, [0])
    frames = problem.solve(settings, grid, start, times)
    problem.state(settings, grid, frames[:, 0])
    problem.speed(settings)
    assert set(problem.settings.model_fields) <= settings.read


@every_problem
@pytest.mark.parametrize("initial", ["ours", "pdebench"])
def test_a_start_depends_on_seed_and_sample_alone(problem, initial):
    if "initial" not in problem.settings.model_fields and initial != "ours":
        pytest.skip("one kind of start only")
    settings, grid, many = started(problem, (4, 1, 7), initial=initial)
    assert many.dtype == np.float64 and np.isfinite(many).all()
    assert many.shape[0] == 3 and many.shape[2:] == grid.points
    one = problem.draw(settings, grid, 0, [1])
    np.testing.assert_array_equal(one[0], many[1])
    assert not np.array_equal(many[0], many[1])


@every_problem
def test_another_seed_gives_another_start(problem):
    settings = small(problem, points=64)
    grid = problem.grid(settings)
    draws = [problem.draw(settings, grid, seed, range(3)) for seed in (0, 1)]
    assert not np.array_equal(*draws)


@every_problem
def test_a_solution_has_the_promised_shape_and_is_finite(problem):
    settings, grid, start = started(problem)
    times = problem.times(settings)
    assert times[0] == 0 and (np.diff(times) > 0).all()
    before = start.copy()
    frames = problem.solve(settings, grid, start, times)
    count = 2 if problem.steady else len(times)
    assert frames.shape == (2, count, len(problem.fields), *grid.points)
    assert np.isfinite(frames).all()
    np.testing.assert_array_equal(start, before)
    if not problem.steady:
        assert len(times) == settings.frames
        assert not np.array_equal(frames[:, 0], frames[:, -1])


@every_problem
def test_a_sample_is_solved_as_if_it_were_alone(problem):
    settings, grid, start = started(problem, (0, 1, 2))
    times = problem.times(settings)
    together = problem.solve(settings, grid, start, times)
    alone = problem.solve(settings, grid, start[1:2], times)
    np.testing.assert_array_equal(alone[0], together[1])


@every_problem
def test_a_coarser_grid_is_solved_too(problem):
    settings = small(problem)
    grid = problem.grid(settings).strided(2)
    start = problem.draw(settings, grid, 0, [0])
    assert start.shape[2:] == grid.points
    frames = problem.solve(settings, grid, start, problem.times(settings))
    assert frames.shape[3:] == grid.points and np.isfinite(frames).all()


@every_problem
def test_a_solution_can_go_on_from_a_saved_frame(problem):
    settings, grid, start = started(problem)
    times = problem.times(settings)
    frames = problem.solve(settings, grid, start, times)
    state = problem.state(settings, grid, frames[:, -2])
    if state is None:
        # Then a frame must be less than a state, or there is nothing to go on to.
        assert problem.steady or len(problem.fields) < start.shape[1]
        return
    again = problem.solve(settings, grid, state, times[-2:])
    scale = np.abs(frames).max()
    np.testing.assert_allclose(again[:, 0], frames[:, -2], atol=1e-12 * scale)
    np.testing.assert_allclose(again[:, 1], frames[:, -1], atol=1e-3 * scale)


@every_problem
def test_a_solution_moved_by_a_symmetry_is_a_solution(problem):
    """solve(moved start) = moved solve(start), for mirrors, shifts, turns and signs drawn at will.

    The start is a later frame off the middle, so that no symmetry of its own hides a mistake.
    """
    settings, grid, state = started(problem, samples=range(8), boundary="periodic")
    times = problem.times(settings)
    frames = problem.solve(settings, grid, state, times)
    frame = np.roll(
        frames[:, 0 if problem.steady else -1], range(3, 3 + grid.dims), range(2, 2 + grid.dims)
    )
    start = problem.state(settings, grid, frame)
    if start is None:
        pytest.skip("a frame of it cannot go on; its sibling with the whole state can")
    solved = torch.from_numpy(problem.solve(settings, grid, start, times))
    card = plan(problem, 8, **settings.model_dump()).card
    moved = augment(solved, card, seed=0, step=0)
    assert not torch.equal(moved, solved)
    again = problem.state(settings, grid, moved[:, 0].numpy())
    np.testing.assert_allclose(
        problem.solve(settings, grid, again, times), moved, rtol=1e-9, atol=1e-9
    )


@every_problem
def test_progress_runs_up_to_one(problem):
    settings, grid, start = started(problem)
    told = []
    problem.solve(settings, grid, start, problem.times(settings), told.append)
    assert told == sorted(told) and told[-1] == 1 and min(told) >= 0


@every_problem
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"pionts": 3}, "Unknown setting 'pionts'. Did you mean 'points'?"),
        ({"points": -1}, "Setting 'points'"),
        ({"points": "many"}, "Setting 'points'"),
        ({"initial": "theirs"}, "Setting 'initial'"),
    ],
)
def test_a_wrong_setting_is_answered_in_one_line(problem, wrong, words):
    if not {"pionts", *problem.settings.model_fields} >= set(wrong):
        pytest.skip("no such setting")
    with pytest.raises(ValueError, match="etting") as answer:
        problem.settings(**wrong)
    assert words in str(answer.value)
    assert "\n" not in str(answer.value)


@every_problem
def test_released_starts_end_with_the_released_file_and_have_one_seed(problem):
    if "initial" not in problem.settings.model_fields:
        pytest.skip("one kind of start only")
    settings = small(problem, initial="pdebench")
    grid = problem.grid(settings)
    with pytest.raises(ValueError, match="seed should be 0"):
        problem.draw(settings, grid, 1, [0])
    with pytest.raises(ValueError, match="use fewer samples"):
        problem.draw(settings, grid, 0, [1_000_000])
