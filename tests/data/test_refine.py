"""Fine truth: solved on finer cells, averaged, with its own distance from convergence."""

import numpy as np
import pytest

import fino
from fino.data.generate import restrict
from fino.pde import Euler, MpPde

SMALL = {"points": 16, "frames": 4, "duration": 0.3}


def test_refined_data_are_the_means_of_the_finer_solution():
    data = fino.generate("euler-2d", 2, gas="own", refine=3, **SMALL)
    problem = Euler(gas="own", **SMALL)
    fine = problem.grid.refined((48, 48))
    solved = problem.solve(fine, problem.draw(fine, 0, [0, 1]), problem.times)
    np.testing.assert_allclose(data.read([0, 1]), restrict(solved, 3, 2), rtol=1e-6)
    assert data.grid == problem.grid and data.card.refine == 3


def test_averages_keep_what_is_conserved():
    u = np.random.default_rng(0).normal(size=(2, 3, 12, 8))
    assert restrict(u, 4, 2).shape == (2, 3, 3, 2)
    np.testing.assert_allclose(restrict(u, 4, 2).mean((2, 3)), u.mean((2, 3)), atol=1e-15)


def test_the_card_beside_the_file_says_how_far_the_truth_is_from_converged(tmp_path):
    errors = []
    for refine in (2, 8):
        data = fino.generate(
            "mp-pde", 2, refine=refine, points=20, frames=40, out=tmp_path / f"{refine}.h5"
        )
        errors.append(data.card.cost.truth_error)
        assert "itself solved on cells half as wide" in data.card.markdown()
    assert 0 < errors[1] < 0.1 * errors[0] < 0.1
    plain = fino.generate("mp-pde", 2, refine=1, points=20, frames=4, out=tmp_path / "plain.h5")
    assert plain.card.cost.truth_error is None


def test_noise_that_has_no_limit_on_finer_cells_is_not_measured(tmp_path):
    data = fino.generate("diffusion-reaction-2d", 2, refine=2, out=tmp_path / "n.h5", **SMALL)
    assert data.card.cost.truth_error is None


def test_a_file_that_was_not_refined_keeps_its_bytes():
    card = fino.generate("advection", 2, points=16, frames=4).card
    assert "refine" not in card.to_json() and card.refine == 1


def test_a_refined_file_is_refused_where_another_refinement_is_asked_for(tmp_path):
    settings = {"points": 20, "frames": 4, "out": tmp_path / "d.h5"}
    fino.generate("mp-pde", 2, refine=2, **settings)
    with pytest.raises(ValueError, match="exists already and holds something else"):
        fino.generate("mp-pde", 2, refine=4, **settings)
    assert MpPde(points=20).refinement == 40
