"""Streams of random numbers are named, repeatable and independent."""

import numpy as np
import torch

from fino.streams import numpy_stream, stream_seed, torch_stream


def test_the_same_names_give_the_same_numbers():
    a, b = numpy_stream(7, "noise", 3), numpy_stream(7, "noise", 3)
    np.testing.assert_array_equal(a.normal(size=5), b.normal(size=5))
    assert torch.equal(
        torch.rand(4, generator=torch_stream(7, "x")), torch.rand(4, generator=torch_stream(7, "x"))
    )


def test_every_name_and_its_place_matter():
    seeds = {
        stream_seed(0),
        stream_seed(1),
        stream_seed(0, "a"),
        stream_seed(0, "a", "b"),
        stream_seed(0, "b", "a"),
        stream_seed(0, "ab"),
        stream_seed(0, 1),
        stream_seed(0, "1"),
    }
    assert len(seeds) == 8


def test_streams_do_not_touch_the_global_generators():
    torch.manual_seed(0)
    np_state = np.random.get_state()[1].copy()  # noqa: NPY002 - it is the global one we watch
    torch_state = torch.get_rng_state()
    numpy_stream(0, "a").normal()
    torch_stream(0, "a")
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], np_state)  # noqa: NPY002
