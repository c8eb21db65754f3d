"""The awkward set of data, and a network that is given more and more of what is known."""

import numpy as np

from lab.bench_conditions import measure_conditions, simulate


def test_the_set_is_as_awkward_as_it_says():
    trajectories, nu, heating, obstacle = simulate()
    lengths = [len(one) for one in trajectories]
    assert min(lengths) >= 14 and len(set(lengths)) > 3
    assert heating.shape == (30, max(lengths), 48, 80) and len(set(nu)) == 30
    a, b = (np.abs(np.stack([one[0, field] for one in trajectories])).max() for field in (0, 1))
    assert a < 1e-1 and b > 1e4
    first, last = trajectories[0][0], trajectories[0][-1]
    assert np.array_equal(first[:, obstacle], last[:, obstacle]), "nothing moves inside of it"
    assert not np.array_equal(first[:, ~obstacle], last[:, ~obstacle])


def test_every_set_of_conditions_trains():
    found = measure_conditions(cpu_seconds=0.5)
    assert next(iter(found)) == "nothing" and len(found) == 6
    assert all(0 < errors["both"] < 2 for errors in found.values())
