"""Speeds of fronts and tips of spirals, where they are known."""

import json

import numpy as np
import pytest

from lab.heart import PAGE, RESULTS, count_tips, front_speed, words


def test_the_speed_of_a_front_is_found_to_a_thousandth():
    x, t = (np.arange(64) + 0.5) * 0.1, np.arange(12) * 10.0
    front = 1 / (1 + np.exp((x - 1.0 - 0.037 * t[:, None]) / 0.08))
    u = np.repeat(front[..., None], 4, axis=2)
    assert front_speed(u, 0.1, 10.0, level=0.5) == pytest.approx(0.037, rel=1e-3)


def test_a_sheet_without_a_front_is_said():
    with pytest.raises(ValueError, match="no front inside"):
        front_speed(np.zeros((5, 16, 16)), 0.1, 10.0)


@pytest.mark.parametrize("arms", [1, 2])
def test_each_turning_spiral_has_one_tip(arms):
    x, y = np.meshgrid(np.linspace(-1, 1, 40), np.linspace(-1, 1, 40), indexing="ij")
    t = np.arange(20)[:, None, None]
    angle = sum(
        (-1) ** k * np.arctan2(y - 0.013, x - 0.8 * (k - (arms - 1) / 2) - 0.011)
        for k in range(arms)
    )
    u = 0.4 + 0.4 * np.cos(angle - 0.7 * t)
    assert set(count_tips(u)) == {arms}


def test_plane_waves_have_no_tip():
    x, t = np.arange(40)[:, None], np.arange(20)[:, None, None]
    assert set(count_tips(0.4 + 0.4 * np.cos(0.3 * x - 0.7 * t) * np.ones((40, 40)))) == {0}


def test_the_page_says_what_is_kept():
    assert words(json.loads(RESULTS.read_text())) in PAGE.read_text()
