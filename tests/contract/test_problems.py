"""What every entry of PROBLEMS promises, tested on a small grid."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import fino
from fino.data.card import SYMMETRIES
from fino.data.generate import plan
from fino.given import Given
from fino.pde import PROBLEMS
from fino.training.batch import augment

SMALL = {"points": 16, "frames": 4, "duration": 0.06}

every_problem = pytest.mark.parametrize("kind", PROBLEMS.values(), ids=PROBLEMS)


def small(kind, **changes):
    """The problem on a small grid and over a short time."""
    values = {**SMALL, **changes}
    return kind(**{name: value for name, value in values.items() if name in kind.model_fields})


def begin(kind, samples=(0, 1), **changes):
    problem = small(kind, **changes)
    return problem, problem.draw(problem.grid, 0, samples)


def forcing_of(problem, samples=(0, 1), grid=None, times=None):
    """What drives these samples; None where nothing does."""
    grid, times = grid or problem.grid, problem.times if times is None else times
    return problem.draw_forcing(grid, times, 0, samples) if problem.forces else None


@every_problem
def test_a_problem_says_what_it_is(kind):
    assert PROBLEMS[kind.name] is kind
    assert kind.title and kind.equation and kind.description
    assert len(kind.fields) == len(kind.units) == len(set(kind.fields))
    problem = small(kind)
    assert set(problem.kept_symmetries) <= set(kind.symmetries) <= set(SYMMETRIES)
    assert problem.refinement >= 1
    assert problem.solver.strip()
    assert all("\n" not in flaw for flaw in problem.flaws)
    assert problem.speed is None or problem.speed > 0


@every_problem
def test_every_setting_is_described_where_help_shows_it(kind):
    for name, setting in kind.model_fields.items():
        assert setting.description and setting.description.endswith("."), name
        assert f"{name} = {setting.default!r}: {setting.description}" in kind.__doc__


@every_problem
def test_every_setting_is_used(kind):
    read = set()

    class Watched(kind):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    problem = small(Watched)
    read.clear()
    frames = problem.solve()
    assert problem.speed is None or problem.speed > 0
    problem.state(problem.grid, frames[:, 0])
    assert set(kind.model_fields) <= read


@every_problem
def test_a_problem_is_its_settings(kind):
    problem = small(kind)
    card = plan(problem, 3).card
    stored = card.model_dump(mode="json")["parameters"]
    settings = problem.model_dump(mode="json").items()
    assert list(stored.items()) == [pair for pair in settings if pair[0] not in card.varying]
    assert kind(**stored) == problem
    assert plan(kind.name, 3, **card.parameters).card == card
    assert plan(kind, 3, **card.parameters).card == card
    assert plan(kind(), 3, **card.parameters).card == card


@every_problem
@pytest.mark.parametrize("initial", ["ours", "pdebench"])
def test_a_start_depends_on_seed_and_sample_alone(kind, initial):
    if "initial" not in kind.model_fields and initial != "ours":
        pytest.skip("one kind of start only")
    problem, many = begin(kind, (4, 1, 7), initial=initial)
    assert many.dtype == np.float64 and np.isfinite(many).all()
    assert many.shape[0] == 3 and many.shape[2:] == problem.grid.points
    one = problem.draw(problem.grid, 0, [1])
    np.testing.assert_array_equal(one[0], many[1])
    assert not np.array_equal(many[0], many[1])


@every_problem
def test_another_seed_gives_another_start(kind):
    problem = small(kind, points=64)
    draws = [problem.draw(problem.grid, seed, range(3)) for seed in (0, 1)]
    assert not np.array_equal(*draws)


@every_problem
def test_a_solution_has_the_promised_shape_and_is_finite(kind):
    problem, start = begin(kind)
    times = problem.times
    assert times[0] == 0 and (np.diff(times) > 0).all()
    before = start.copy()
    frames = problem.solve(problem.grid, start, times, forcing=forcing_of(problem))
    count = 2 if problem.steady else len(times)
    assert frames.shape == (2, count, len(problem.fields), *problem.grid.points)
    assert np.isfinite(frames).all()
    np.testing.assert_array_equal(start, before)
    if not problem.steady:
        assert len(times) == problem.frames
        assert not np.array_equal(frames[:, 0], frames[:, -1])


@every_problem
def test_what_is_left_out_of_solve_is_the_problem_s_own(kind):
    whole = small(kind)
    own = {name: float(values[0]) for name, values in whole.draw_parameters(0, [0]).items()}
    problem, start = begin(kind, samples=[0], **own)
    np.testing.assert_array_equal(
        whole.solve(),
        problem.solve(problem.grid, start, problem.times, forcing=forcing_of(problem, [0])),
    )


@every_problem
def test_a_sample_is_solved_as_if_it_were_alone(kind):
    problem, start = begin(kind, (0, 1, 2))
    together = problem.solve(initial=start, forcing=forcing_of(problem, (0, 1, 2)))
    alone = problem.solve(initial=start[1:2], forcing=forcing_of(problem, [1]))
    np.testing.assert_array_equal(alone[0], together[1])


@every_problem
def test_a_coarser_grid_is_solved_too(kind):
    problem = small(kind)
    grid = problem.grid.strided(2)
    start = problem.draw(grid, 0, [0])
    assert start.shape[2:] == grid.points
    frames = problem.solve(grid, start, forcing=forcing_of(problem, [0], grid))
    assert frames.shape[3:] == grid.points and np.isfinite(frames).all()


@every_problem
def test_a_solution_can_go_on_from_a_saved_frame(kind):
    problem, start = begin(kind)
    frames = problem.solve(initial=start, forcing=forcing_of(problem))
    state = problem.state(problem.grid, frames[:, -2])
    if state is None:
        # Then a frame must be less than a state, or there is nothing to go on to.
        assert problem.steady or len(problem.fields) < start.shape[1]
        return
    times = problem.times[-2:]
    again = problem.solve(
        initial=state, times=times, forcing=forcing_of(problem, (0, 1), times=times)
    )
    scale = np.abs(frames).max()
    np.testing.assert_allclose(again[:, 0], frames[:, -2], atol=1e-12 * scale)
    np.testing.assert_allclose(again[:, 1], frames[:, -1], atol=1e-3 * scale)


@every_problem
def test_a_solution_moved_by_a_symmetry_is_a_solution(kind):
    """solve(moved start) = moved solve(start), for mirrors, shifts, turns and signs drawn at will.

    The start is a later frame off the middle, so that no symmetry of its own hides a mistake.
    """
    problem, state = begin(kind, samples=range(8), boundary="periodic")
    grid = problem.grid
    forcing = forcing_of(problem, range(8))
    frames = problem.solve(initial=state, forcing=forcing)
    frame = np.roll(
        frames[:, 0 if problem.steady else -1], range(3, 3 + grid.dims), range(2, 2 + grid.dims)
    )
    start = problem.state(grid, frame)
    if start is None:
        pytest.skip("a frame of it cannot go on; its sibling with the whole state can")
    solved = torch.from_numpy(problem.solve(initial=start, forcing=forcing))
    drive = None if forcing is None else torch.from_numpy(forcing)
    given, future = augment(
        Given(solved[:, :1], forcing=drive), solved[:, 1:], plan(problem, 8).card, seed=0, step=0
    )
    moved = torch.cat([given.history, future], dim=1)
    assert not torch.equal(moved, solved)
    again = problem.state(grid, moved[:, 0].numpy())
    drive = None if forcing is None else given.forcing.numpy()
    np.testing.assert_allclose(
        problem.solve(initial=again, forcing=drive), moved, rtol=1e-9, atol=1e-9
    )


@every_problem
def test_progress_runs_up_to_one(kind):
    problem, start = begin(kind)
    shares = []
    problem.solve(initial=start, progress=shares.append, forcing=forcing_of(problem))
    assert shares == sorted(shares) and shares[-1] == 1 and min(shares) >= 0


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
def test_a_wrong_setting_is_answered_in_one_line(kind, wrong, words):
    if not {"pionts", *kind.model_fields} >= set(wrong):
        pytest.skip("no such setting")
    with pytest.raises(ValueError, match="etting") as answer:
        kind(**wrong)
    assert words in str(answer.value)
    assert "\n" not in str(answer.value)


@every_problem
def test_released_starts_end_with_the_released_file_and_have_one_seed(kind):
    if "initial" not in kind.model_fields:
        pytest.skip("one kind of start only")
    problem = small(kind, initial="pdebench")
    with pytest.raises(ValueError, match="seed should be 0"):
        problem.draw(problem.grid, 1, [0])
    with pytest.raises(ValueError, match="use fewer samples"):
        problem.draw(problem.grid, 0, [1_000_000])


def test_data_of_an_instance_keep_its_settings():
    problem = small(PROBLEMS["advection"], beta=2.0, initial="pdebench")
    card = fino.generate(problem, samples=1).card
    assert card.initial == "pdebench" and card.parameters["beta"] == 2.0
    assert fino.generate(problem, samples=1, initial="ours").card.initial == "ours"


def test_what_is_no_problem_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"^Unknown problem 'advektion'\. Did you mean"):
        fino.generate("advektion", samples=1)
    with pytest.raises(ValueError, match=r"^problem should be a name or a fino\.pde\.Problem"):
        fino.generate(object(), samples=1)


def test_listing_problems_loads_no_compiler():
    code = "import sys, fino.pde; heavy = {'numba', 'scipy', 'torch'} & set(sys.modules); "
    code += "assert not heavy, heavy"
    subprocess.run([sys.executable, "-c", code], check=True)


#: Settings of the numerics, the domain and the saved frames: no coefficients, but they may well
#: move the solution.
_NUMERICS = {
    *("points", "frames", "duration", "half_width", "side", "boundary", "stop", "splitting"),
    *("courant", "step", "tolerance", "order", "method", "finer", "variant"),
}


@every_problem
def test_the_coefficients_are_what_changes_the_course_of_a_given_start(kind):
    """Everything else that can be set is of the numerics, or of how starts are drawn."""
    assert set(kind.coefficients) <= set(kind.model_fields)
    own = {"gas": "own"} if "gas" in kind.model_fields else {}
    problem, initial = begin(kind, **own)
    force = forcing_of(problem)
    usual = problem.solve(problem.grid, initial, forcing=force)
    for name, setting in kind.model_fields.items():
        value = getattr(problem, name)
        if name in _NUMERICS or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        other = problem.changed(**{name: type(value)(1.5 * value + 0.01)})
        found = other.solve(problem.grid, initial, forcing=force)
        moved = np.abs(found - usual).max() / np.abs(usual).max()
        assert (moved > 1e-9) == (name in kind.coefficients), (name, moved, setting.description)
