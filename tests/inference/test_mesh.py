"""Meshes of processes: blocks make the domain, neighbours agree, plans give their reasons."""

from collections.abc import Callable

import pytest

from fino.inference.costs import Costs, assumed, measured
from fino.inference.halo import Halo
from fino.inference.local import LocalStep, local_stepper
from fino.inference.mesh import HIGH, LOW, Mesh, best_mesh
from fino.inference.plan import make_plan
from fino.inference.plan_ranks import inner_and_shell, plan_ranks, predict_scaling
from fino.inference.tiles import Box, Domain, cells
from fino.model.emulator import Emulator

Make = Callable[..., Emulator]


def cells_of(box: Box) -> set[tuple[int, ...]]:
    from itertools import product

    return set(product(*(range(start, stop) for start, stop in box)))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (4, 1), (3, 2)])
def test_blocks_cover_the_domain_once(shape: tuple[int, int]) -> None:
    mesh = Mesh(Domain((24, 20), (True, False), (4, 4)), shape)
    blocks = [cells_of(mesh.block(rank)) for rank in range(mesh.ranks)]
    assert sum(map(len, blocks)) == 24 * 20 == len(set.union(*blocks))


def test_neighbours_are_mutual_and_walls_have_none() -> None:
    mesh = Mesh(Domain((24, 24), (True, False), (1, 1)), (3, 2))
    for rank in range(mesh.ranks):
        for axis in (0, 1):
            neighbour = mesh.neighbour(rank, axis, HIGH)
            if neighbour is None:
                assert axis == 1
            else:
                assert mesh.neighbour(neighbour, axis, LOW) == rank
    assert mesh.neighbour(0, 1, LOW) is None
    assert mesh.neighbour(0, 0, LOW) == 4


def test_the_best_mesh_has_the_smallest_halo() -> None:
    square = Domain((64, 64), (True, True), (2, 2))
    assert best_mesh(square, 16, (4, 4)).shape == (4, 4)
    flat = Domain((512, 16), (False, False), (2, 2))
    assert best_mesh(flat, 4, (4, 4)).shape == (4, 1)


def test_blocks_smaller_than_the_halo_are_refused() -> None:
    domain = Domain((32,), (False,), (1,))
    with pytest.raises(
        ValueError, match="8 processes leave blocks of the 32 grid that are smaller"
    ):
        best_mesh(domain, 8, (6,))
    with pytest.raises(ValueError, match="more of them on an axis than the 32 grid has strides"):
        Mesh(domain, (64,))
    with pytest.raises(ValueError, match="a mesh of 8 processes leaves blocks of the 32 grid that"):
        Halo(Mesh(domain, (8,)), 0, (6,))


@pytest.mark.parametrize("boundary", ["periodic", "neumann"])
def test_inner_cells_and_shell_make_the_block(boundary: str, make_model: Make) -> None:
    step = local_stepper(make_model((64, 48), boundary), (64, 48))
    mesh = Mesh(step.domain, (2, 2))
    for rank in range(4):
        inner, shell = inner_and_shell(mesh, rank, step.locality.halo())
        parts = [cells_of(box) for box in inner + shell]
        assert sum(map(len, parts)) == len(cells_of(mesh.block(rank))) == len(set.union(*parts))
        for box in inner:
            window = step.windows(box, 1)[0]
            assert cells_of(window) <= cells_of(mesh.block(rank))


def step_of(make_model: Make, points: tuple[int, ...] = (256, 256)) -> LocalStep:
    return local_stepper(make_model((64, 64)), points)


def test_dear_messages_are_sent_less_often(make_model: Make) -> None:
    step = step_of(make_model)
    cheap = Costs(call=0, cell=1e-6, byte=0, message=0, wire_byte=0)
    dear = Costs(call=0, cell=1e-9, byte=0, message=1.0, wire_byte=0)
    few, many = (plan_ranks(step, 16, costs, channels=1, steps=100) for costs in (cheap, dear))
    assert few.steps_per_halo == 1
    assert many.steps_per_halo > 1
    assert few.reasons[0] == "16 processes as 4 × 4: the least halo for the largest block."
    assert "times as long" in few.reasons[-1]


def test_computing_meanwhile_is_chosen_where_it_hides_the_halo(make_model: Make) -> None:
    step = step_of(make_model, (1024, 1024))
    slow_wire = Costs(call=0, cell=1e-6, byte=0, message=0.1, wire_byte=0)
    quick_wire = Costs(call=0, cell=1e-6, byte=0, message=1e-9, wire_byte=0)
    assert plan_ranks(step, 4, slow_wire, channels=1, steps=1).overlap
    assert not plan_ranks(step, 4, quick_wire, channels=1, steps=1).overlap


def test_slow_reading_makes_the_halo_carry_more_steps(make_model: Make) -> None:
    step = step_of(make_model)
    computing = Costs(call=0, cell=1e-6, byte=1e-12)
    reading = Costs(call=0, cell=1e-9, byte=1e-6)
    plans = [make_plan(step, (128, 128), c, steps=50, channels=1) for c in (computing, reading)]
    assert plans[0].steps_per_halo == 1
    assert plans[1].steps_per_halo > 1
    assert plans[0].reasons[0] == "4 tiles of up to 128 × 128 cells with a halo of 10 × 10."


def test_small_tiles_share_a_call(make_model: Make) -> None:
    step = step_of(make_model)
    costs = Costs(call=1e-2, cell=1e-6, byte=0)
    small, large = (make_plan(step, (n, n), costs, steps=1, channels=1) for n in (16, 256))
    assert small.batch > 1
    assert large.batch == 1


def test_costs_assumed_are_repeatable_and_costs_measured_are_positive(make_model: Make) -> None:
    step = step_of(make_model)
    assert assumed(step) == assumed(step)
    timed = measured(step, 1, repeats=1)
    assert timed.cell > 0
    assert timed.call >= 0


def test_efficiency_on_paper_falls_with_the_number_of_processes(make_model: Make) -> None:
    step = step_of(make_model, (2048, 2048))
    costs = Costs(call=1e-3, cell=1e-7, byte=0)
    scaling = predict_scaling(step, costs, channels=1)
    assert [s.ranks for s in scaling] == [2**i for i in range(11)]
    assert scaling[0].efficiency == pytest.approx(1)
    assert scaling[-1].efficiency < scaling[1].efficiency <= 1
    assert all(cells(step.domain.whole) >= s.ranks for s in scaling)
