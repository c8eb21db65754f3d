"""Meshes of processes: blocks make the domain, neighbours agree, one rule cuts the work."""

from collections.abc import Callable

import pytest

from fino.inference.boxes import HIGH, LOW, Box, Domain, Mesh, choose_mesh
from fino.inference.local import LocalStep, local_step
from fino.inference.ranks import Halo, decompose
from fino.inference.tiles import BATCH_CELLS, choose_plan, count_computed
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
    assert choose_mesh(square, 16, (4, 4)).shape == (4, 4)
    flat = Domain((512, 16), (False, False), (2, 2))
    assert choose_mesh(flat, 4, (4, 4)).shape == (4, 1)


def test_blocks_smaller_than_the_halo_are_refused() -> None:
    domain = Domain((32,), (False,), (1,))
    with pytest.raises(
        ValueError, match="8 processes leave blocks of the 32 grid that are smaller"
    ):
        choose_mesh(domain, 8, (6,))
    with pytest.raises(ValueError, match="more of them on an axis than the 32 grid has strides"):
        Mesh(domain, (64,))
    with pytest.raises(ValueError, match="a mesh of 8 processes leaves blocks of the 32 grid that"):
        Halo(Mesh(domain, (8,)), 0, (6,))


@pytest.mark.parametrize("boundary", ["periodic", "neumann"])
def test_inner_cells_and_shell_make_the_block(boundary: str, make_model: Make) -> None:
    step = local_step(make_model((64, 48), boundary), (64, 48))
    mesh = Mesh(step.domain, (2, 2))
    for rank in range(4):
        inner, shell = mesh.inner_and_shell(rank, step.locality.halo())
        parts = [cells_of(box) for box in inner + shell]
        assert sum(map(len, parts)) == len(cells_of(mesh.block(rank))) == len(set.union(*parts))
        for box in inner:
            window = step.windows(box, 1)[0]
            assert cells_of(window) <= cells_of(mesh.block(rank))


def step_of(make_model: Make, points: tuple[int, ...] = (256, 256), **settings: int) -> LocalStep:
    return local_step(make_model((64, 64), **settings), points)


@pytest.mark.parametrize("tile", [32, 64, 128, 256])
def test_a_halo_carries_as_many_steps_as_cost_few_cells(tile: int, make_model: Make) -> None:
    step = step_of(make_model, (1024, 1024), levels=0)
    plan = choose_plan(step, tile, steps=50)

    def computed(count: int) -> float:
        tiles = step.domain.cut(step.domain.whole, plan.tile, step.locality.halo(count))
        return count_computed(step, tiles, count) / count

    assert computed(plan.steps_per_halo) < 1.07 * computed(1)
    assert computed(plan.steps_per_halo + 1) > 1.05 * computed(1)


def test_wide_tiles_and_few_processes_have_wider_halos(make_model: Make) -> None:
    step = step_of(make_model, (1024, 1024))
    tiles = [choose_plan(step, tile, steps=50).steps_per_halo for tile in (32, 512, 1024)]
    ranks = [decompose(step, count, steps=50).steps_per_halo for count in (256, 4, 1)]
    assert tiles[0] == ranks[0] == 1
    assert 1 < tiles[1] < tiles[2] == 16
    assert 1 < ranks[1] < ranks[2] == 16
    assert choose_plan(step, 1024, steps=3).steps_per_halo == 3


def test_a_halo_that_reads_the_whole_domain_is_not_taken_for_cheap(make_model: Make) -> None:
    step = step_of(make_model)
    assert choose_plan(step, 16, steps=50).steps_per_halo == 1


def test_a_halo_stays_within_the_blocks_next_door(make_model: Make) -> None:
    step = step_of(make_model, (64, 4096))
    cut = decompose(step, 4, steps=50, mesh=(4, 1))
    assert cut.mesh.carries(step.locality.halo(cut.steps_per_halo))
    assert not cut.overlap
    with pytest.raises(ValueError, match=r"a mesh of \(4, 1\) needs 4 processes, but there are 2"):
        decompose(step, 2, steps=1, mesh=(4, 1))


def test_small_tiles_share_a_call(make_model: Make) -> None:
    step = step_of(make_model)
    small, large = (choose_plan(step, n, steps=1) for n in (16, 256))
    assert 1 < small.batch <= BATCH_CELLS // 16**2
    assert large.batch == 1
