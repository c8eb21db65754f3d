"""Known answers: Random123's own vectors, and JAX's numbers for the seed of PDEBench's files."""

from __future__ import annotations

import numpy as np
import pytest

from fino.pde.threefry import bits, chance, integers, key_of, split, threefry, uniform

KEY = key_of(2022)


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_hash_gives_the_vectors_of_its_authors(key, counter, answer):
    words = (np.array([word], dtype=np.uint32) for word in counter)
    assert tuple(int(word[0]) for word in threefry(key, *words)) == answer


def test_splitting_a_key_gives_jax_s_keys():
    assert split(KEY) == ((521782358, 3810184916), (3672138398, 1582850205))


def test_words_are_jax_s_in_the_layout_that_pairs_halves():
    even = [3956190184, 3414213925, 775593189, 2679934975]
    even += [3036228393, 2080732067, 3373734258, 1078282842]
    odd = [*even[:3], 2129690842, *even[4:7]]
    assert bits(KEY, 8).tolist() == even
    assert bits(KEY, 7).tolist() == odd


def test_uniform_numbers_are_jax_s_to_the_bit():
    first = ["0x1.a60bd00000000p-2", "0x1.ab29240000000p-1", "0x1.3d2ea00000000p-2"]
    first += ["0x1.df02080000000p-1", "0x1.f9d6bc0000000p-1"]
    assert [float(x).hex() for x in uniform(KEY, 5)] == first
    between = uniform(KEY, 3, low=0.1, high=0.45)
    np.testing.assert_allclose(between, [0.14252041, 0.37732425, 0.3992452], atol=1e-8)


def test_whole_numbers_and_choices_are_jax_s():
    assert integers(KEY, 8, 4).tolist() == [0, 0, 2, 1, 3, 0, 3, 3]
    assert integers(KEY, 8, 3).tolist() == [0, 0, 0, 0, 1, 2, 2, 1]
    assert np.flatnonzero(chance(KEY, 12, 0.1)).tolist() == [2]


@pytest.mark.parametrize("size", [1, 2, 9, 10_000])
def test_a_few_numbers_of_a_large_draw_are_the_same_as_in_the_whole_draw(size):
    at = np.unique([0, size // 2, size - 1])
    assert uniform(KEY, size, at).tolist() == uniform(KEY, size)[at].tolist()
    assert integers(KEY, size, 7, at).tolist() == integers(KEY, size, 7)[at].tolist()


def test_a_position_outside_the_draw_is_refused():
    with pytest.raises(ValueError, match="between 0 and 4"):
        bits(KEY, 5, [5])


def test_a_seed_that_is_no_32_bit_number_is_refused():
    with pytest.raises(ValueError, match="threefry seed"):
        key_of(-1)
