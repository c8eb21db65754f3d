"""The error-matched solver: its curve, the match, break-even, and the verdict in words."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.evaluation.worth import (
    Solved,
    Worth,
    _Race,
    average,
    find_truth,
    interpolate,
    match,
    measure_worth,
)
from fino.export.library import find_compiler
from fino.grid import Grid
from fino.metrics.scores import Score, Scores
from fino.pde import Advection
from fino.report.words import describe_worth
from fino.training.run import find_run


def line(cells, offset=0.5):
    return Grid((cells,), ((0.0, 1.0),), "periodic", (offset,))


def test_averages_keep_the_mean_on_any_number_of_cells():
    u = np.random.default_rng(0).normal(size=(2, 48))
    for cells in (16, 20, 31):
        coarse = average(u, line(48), line(cells))
        assert coarse.shape == (2, cells)
        np.testing.assert_allclose(coarse.mean(1), u.mean(1), atol=1e-14)
    np.testing.assert_allclose(average(u, line(48), line(16)), u.reshape(2, 16, 3).mean(2))


@pytest.mark.parametrize(("count", "order"), [(2, 2), (4, 4)])
def test_answers_are_read_off_the_points_with_the_order_of_the_polynomial(count, order):
    errors = []
    target = line(24, offset=0.125)
    for cells in (32, 64):
        x = line(cells).coordinates()[0]
        read = interpolate(np.sin(2 * np.pi * x)[None], line(cells), target, count)
        errors.append(np.abs(read - np.sin(2 * np.pi * target.coordinates()[0])).max())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.6)


def test_between_walls_polynomials_up_to_their_degree_are_read_exactly():
    walled = Grid((12,), ((0.0, 1.0),), "neumann")
    x, wanted = walled.coordinates()[0], Grid((5,), ((0.0, 1.0),), "neumann", (0.1,))
    read = interpolate((x**3)[None], walled, wanted, 4)[0]
    np.testing.assert_allclose(read, wanted.coordinates()[0] ** 3, atol=1e-13)


def curve(*rows, **settings):
    return [Solved((n,), settings, error, seconds) for n, error, seconds in rows]


def test_the_match_lies_between_two_grids():
    found = curve((16, 0.4, 1.0), (32, 0.1, 4.0))
    seconds, solver = match(found, 0.2)
    assert seconds == pytest.approx(2.0) and solver == found[1]
    assert match(found, 0.1)[0] == pytest.approx(4.0)
    assert match(found, 0.5) == (1.0, found[0])
    assert match(found, 0.01) == (None, found[1])


def test_the_cheapest_variant_is_the_match():
    found = curve((16, 0.4, 1.0), (32, 0.1, 4.0), order=2) + curve((16, 0.05, 2.0), order=4)
    assert match(found, 0.1) == (2.0, found[2])


def test_the_data_s_own_grid_prolongs_the_curve_up_to_its_own_cost():
    found = curve((16, 0.4, 1.0), (32, 0.2, 4.0), (64, 0.0, 12.0))
    assert match(found, 0.15, (64,))[0] == pytest.approx(4 * (0.2 / 0.15) ** 2)
    assert match(found, 0.01, (64,))[0] == 12.0


def worth(**changes):
    solver = Solved((40, 40), {}, 0.1, 0.13)
    facts = {"nrmse": 0.1, "truth_error": 0.02, "seconds": 0.02, "seconds_batched": 0.01}
    facts |= {"samples": 4, "curve": [solver], "matched": 0.13, "matched_batched": 0.13}
    return Worth(solver=solver, **{**facts, "data": 100.0, "training": 20.0, **changes})


def test_break_even_counts_data_and_training():
    assert worth().speed_up == pytest.approx(6.5)
    assert worth().speed_up_batched == pytest.approx(13)
    assert worth().break_even == pytest.approx(120 / 0.12)
    assert worth(matched_batched=0.005).break_even == math.inf
    assert worth(matched_batched=0.005).to_dict()["break_even"] is None
    assert worth(data=None).break_even is None


def words(found):
    none = {name: {} for name in ("data", "baselines", "over_time", "spectra", "verdict")}
    facts = {"model": {"name": "fino"}, "metrics": {"nrmse": Score(0.1)}, "versions": {}, **none}
    scores = Scores(**facts, diverged=0, convention="fino", cost={"worth": found.to_dict()})
    return describe_worth(scores)


def test_the_verdict_names_the_winner_either_way():
    assert words(worth()).startswith("At equal error fino is 13 times cheaper than the solver: 130")
    assert "pays off after 1,000 trajectories" in words(worth())
    lost = words(worth(matched=0.002, matched_batched=0.002))
    assert lost.startswith(
        "Use the solver: at equal error it is 5 times cheaper: 2 ms a trajectory, 2"
    )
    assert words(worth(matched=0.011, matched_batched=0.011)).startswith(
        "At equal error fino costs about as much as"
    )
    off = words(worth(truth_error=0.3))
    assert "on one thread each. Compared at an error of 0.3, because the data are off by" in off
    none = words(worth(matched=None, matched_batched=None))
    assert none.startswith("No classical solver that was tried is as good as fino (20 ms a")


class Perfect(torch.nn.Module):
    """A model that knows the exact shift of advection, slowly."""

    history = 2

    def __init__(self, data):
        super().__init__()
        self.grid, self.shift = data.grid, 2.0 * data.dt

    def forward(self, history):
        waves = torch.fft.rfftfreq(history.shape[-1], 1 / history.shape[-1])
        turn = torch.exp(-2j * math.pi * waves * self.shift)
        for _ in range(200):
            torch.fft.rfft(history)
        return torch.fft.irfft(torch.fft.rfft(history[:, -1]) * turn, history.shape[-1])


def test_on_smooth_advection_the_verdict_is_to_use_the_solver():
    """Shifting a Fourier series is exact and costs next to nothing."""
    data = fino.generate(
        "advection", 12, beta=2.0, points=256, frames=11, duration=0.5, window=0, stride_space=4
    )
    run = find_run(Perfect(data), data)
    found = measure_worth(run, data.test, data.task(2), samples=1, budget=2.0)
    assert found.truth_error > 0 and found.matched is not None
    assert any(s.settings == Advection.exact for s in found.curve)
    assert found.speed_up < 1 and found.speed_up_batched < 1
    assert words(found).startswith("Use the solver: at equal error it is ")


def test_the_curve_ends_with_the_data_themselves(tmp_path):
    """The data's own method on the data's own cells gives the data, with hidden state too."""
    data = fino.generate("shallow-water", 6, points=32, frames=8, duration=0.4, stride_space=2)
    run = find_run(fino.build("fino", data, width=8, levels=0, blocks=1), data)
    truth = find_truth(run, data.test, data.task(), 1)
    given, future = data.test.begin([0])
    race = _Race(run, truth, given, future)
    race.climb(1e-6, budget=30.0)
    own = [s for s in race.curve if not s.settings]
    assert own[-1].points == (32, 32) and own[-1].nrmse < 1e-6 < 1e-3 < own[0].nrmse
    assert {s.points for s in own} >= {(8, 8), (16, 16)}


def test_solvers_run_in_the_thread_whose_time_is_measured(monkeypatch):
    """Other threads of the process may spin while they wait, which is nobody's cost."""
    data = fino.generate("diffusion-reaction-1d", 4, points=32, frames=4, duration=0.1)
    run = find_run(fino.build("fino", data, width=8, levels=0, blocks=1, history=1), data)
    truth = find_truth(run, data.test, data.task(1), 1)
    problem, seen = type(truth.problems[0]), []
    solve = problem.integrate

    def watched(*given):
        seen.append((threading.get_ident(), len(given[2])))
        return solve(*given)

    monkeypatch.setattr(problem, "integrate", watched)
    for batch in (1, 40):
        frames, seconds = truth.solve(0, truth.full, {}, batch=batch)
        assert len(frames) == len(truth.times) and seconds > 0
    assert {thread for thread, _ in seen} == {threading.get_ident()}
    assert sum(samples for _, samples in seen) == 41


def test_a_budget_that_ends_leaves_no_grid_half_measured():
    """The cheapest variant of a grid may be the last one that is tried."""
    data = fino.generate("euler-2d", 4, points=16, frames=3, duration=0.1, refine=1)
    run = find_run(fino.build("fino", data, width=8, levels=0, blocks=1, history=1), data)
    truth = find_truth(run, data.test, data.task(1), 1)
    given, future = data.test.begin([0], 1)
    race = _Race(run, truth, given, future)
    assert race.climb(1e-6, budget=0.0)
    tried = [(s.points, s.settings.get("courant")) for s in race.curve]
    coarsest = race.curve[0].points
    assert tried[:2] == [(coarsest, 0.9), (coarsest, None)]
    assert {points for points, _ in tried} == {coarsest}


def test_a_solver_that_knows_the_start_on_the_model_s_cells_does_not_reach_the_truth():
    """On the truth's own cells the solver is exact, unless its start is that of coarse cells."""
    data = fino.generate("shallow-water-dams", 6, points=16, frames=5, duration=0.6, refine=2)
    run = find_run(fino.build("fino", data, width=8, levels=0, blocks=1, history=1), data)
    truth = find_truth(run, data.test, data.task(1), 1)
    given, future = data.test.begin([0], 1)
    errors = []
    for known in (truth, replace(truth, coarse_start=True)):
        race = _Race(run, known, given, future)
        errors.append(race._measure(known.full, {}).nrmse)
    assert errors[0] < 1e-6 < 0.01 < errors[1]
    race = _Race(run, truth, given, future)
    assert race.match_same_start(1e-6, 20.0) is None and race.match_same_start(10.0, 20.0) > 0


def test_parameters_and_forcing_are_those_of_each_trajectory():
    data = fino.generate("mp-pde", 6, experiment="E2", points=20, frames=60, refine=4)
    run = find_run(fino.build("fino", data, width=8, levels=0, blocks=1, history=1), data)
    found = measure_worth(run, data.test, data.task(1), samples=1, budget=5.0)
    assert found is not None and min(s.nrmse for s in found.curve) < 0.1


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
def test_torch_and_the_compiled_step_are_measured_at_the_same_error():
    data = fino.generate("shallow-water", 6, points=32, frames=8, duration=0.4, stride_space=2)
    run = find_run(fino.build("fino", data, width=8, levels=0, blocks=1), data)
    both = [
        measure_worth(run, data.test, data.task(), samples=1, budget=1.0, engine=engine)
        for engine in ("torch", "c")
    ]
    assert [found.engine for found in both] == ["torch", "c"]
    assert both[1].nrmse == pytest.approx(both[0].nrmse, rel=1e-4)
    assert both[1].seconds > 0


def test_data_that_fino_cannot_solve_have_no_solver_to_compare_with():
    u = np.random.default_rng(0).normal(size=(6, 8, 1, 16))
    data = fino.from_array(u, dt=0.1, extent=((0, 1),), boundary="periodic")
    run = find_run(fino.build("fino", data, width=8, levels=0, blocks=1), data)
    assert measure_worth(run, data.test, data.task()) is None


def test_other_starts_than_the_problem_s_own_have_no_true_state():
    data = fino.generate("advection", 6, points=32, frames=8)
    moved = fino.from_array(
        data.read(range(6)).numpy()[:, ::-1].copy(),
        dt=data.dt,
        extent=((0, 1),),
        boundary="periodic",
    )
    card = data.card.changed(split=moved.split)
    twisted = replace(moved, card=card)
    run = find_run(fino.build("fino", twisted, width=8, levels=0, blocks=1), twisted)
    assert measure_worth(run, twisted.test, twisted.task()) is None
