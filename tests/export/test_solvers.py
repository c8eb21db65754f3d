"""The classical solvers of the page, against the package's own."""

import re

import numpy as np
import pytest
from node import needs_node, run_script, scripts

from fino.export.page import SOLVERS
from fino.pde import PROBLEMS

MARCH = """
const solver = new SOLVERS[name]({points, spacing, parameters, tolerance});
solver.begin(state);
const found = [];
for (let frame = 0; frame < frames; frame++) {
  solver.advance(dt);
  found.push(Array.from(solver.state));
}
return found;
"""


def march(problem, start, frames, folder, dt, tolerance=1e-4):
    """Frames (t, s, *space) of the page's solver; a line is a plane of one row."""
    grid, lift = problem.grid, 2 - problem.grid.dims
    settings = {k: v for k, v in problem.model_dump().items() if not isinstance(v, str | bool)}
    found = run_script(
        ["solvers"],
        MARCH,
        folder,
        name=problem.name,
        points=[*[1] * lift, *grid.points],
        spacing=[*[1.0] * lift, *grid.spacing],
        parameters=settings,
        state=start.ravel().tolist(),
        frames=frames,
        dt=dt,
        tolerance=tolerance,
    )
    return np.array(found).reshape(frames, *start.shape)


def test_the_page_has_the_solvers_that_python_says_it_has():
    table = scripts("solvers").split("const SOLVERS = {")[1]
    assert tuple(re.findall(r'"([a-z0-9-]+)":', table)) == SOLVERS


@needs_node
def test_diffusion_and_reaction_step_as_the_package_does(tmp_path):
    problem = PROBLEMS["diffusion-reaction-2d"](points=16, tolerance=1e-4)
    start = problem.draw(problem.grid, 0, [0])[0]
    expected = problem.solve(problem.grid, start[None], problem.times[:6])[0, 1:]
    found = march(problem, start, 5, tmp_path, problem.times[1])
    assert np.abs(found - expected).max() < 1e-10


@needs_node
@pytest.mark.parametrize("name", ["shallow-water-momenta", "shallow-water-dams"])
def test_shallow_water_flows_as_in_the_package_along_both_axes(tmp_path, name):
    problem = PROBLEMS[name](points=16)
    stream = np.random.default_rng(0)
    start = np.stack([1 + stream.random((16, 16)), *stream.normal(0, 0.4, (2, 16, 16))])
    expected = problem.solve(problem.grid, start[None], problem.times[:5])[0, 1:]
    found = march(problem, start, 4, tmp_path, problem.times[1])
    assert np.abs(found - expected).max() < 1e-12
    # Nothing of this is symmetric: an exchange of the momenta would show.
    assert np.abs(found[:, 1] - found[:, 2]).max() > 0.1


@needs_node
@pytest.mark.parametrize("beta", [4.0, -0.7])
def test_advection_carries_as_the_package_does(tmp_path, beta):
    problem = PROBLEMS["advection"](points=48, beta=beta)
    start = problem.draw(problem.grid, 0, [3])[0]
    expected = problem.solve(problem.grid, start[None], problem.times[:4])[0, 1:]
    found = march(problem, start, 3, tmp_path, problem.times[1])
    assert np.abs(found - expected).max() < 1e-10
    assert np.abs(expected[2] - start).max() > 0.01


@needs_node
def test_gray_scott_comes_nearer_to_the_package_on_finer_grids(tmp_path):
    errors = []
    for points in (16, 32):
        spread = {"diffusion_a": 2e-3, "diffusion_b": 1e-3}
        problem = PROBLEMS["gray-scott"](points=points, finer=1, step=0.25, **spread)
        x, y = problem.grid.mesh()
        share = 0.25 * (1 + np.cos(np.pi * x)) * (1 + 0.8 * np.sin(np.pi * y))
        start = np.stack([1 - 0.5 * share, 0.5 * share])
        expected = problem.solve(problem.grid, start[None], np.array([0.0, 2.0, 4.0]))[0, 1:]
        found = march(problem, start, 2, tmp_path, 2.0, tolerance=1e-7)
        errors.append(np.abs(found - expected).max())
    # Fourth-order differences against Fourier series: sixteen times nearer.
    assert errors[1] < 1e-4
    assert errors[0] / errors[1] == pytest.approx(16, rel=0.4)


@needs_node
@pytest.mark.parametrize("name", sorted(PROBLEMS.keys() & set(SOLVERS)))
def test_a_start_is_a_pure_function_of_its_seed(name, tmp_path):
    code = """
    const grid = {points: [name === "advection" ? 1 : 8, 12], spacing, parameters};
    const start = (seed) => SOLVERS[name].draw(randomNumbers(seed), grid);
    const [one, again, other] = [3, 3, 4].map((seed) => Array.from(start(seed)));
    return {one, again, other};
    """
    problem = PROBLEMS[name]()
    settings = {k: v for k, v in problem.model_dump().items() if not isinstance(v, str | bool)}
    spacing = [2 * problem.grid.spacing[0] * problem.grid.points[0] / n for n in (8, 12)]
    found = run_script(["solvers"], code, tmp_path, name=name, spacing=spacing, parameters=settings)
    assert found["one"] == found["again"] != found["other"]
    assert np.isfinite(found["one"]).all()
