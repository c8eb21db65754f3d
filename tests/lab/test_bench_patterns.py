"""Gray–Scott's patterns, rolled out for thirty steps."""

from __future__ import annotations

import pytest

import fino
from lab.bench_patterns import STEPS, measure_patterns


def test_errors_are_kept_by_pattern_and_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.bench_patterns.BEGINS", (0, 2))
    small = {"points": 16, "frames": STEPS + 3, "duration": 10.0 * (STEPS + 2), "finer": 1}
    data = fino.generate("gray-scott", 6, pattern="maze,spots", **small)
    model = fino.build("fino", data, history=1, width=2, levels=0, blocks=1)
    found = measure_patterns(model, data, [0, 1])
    assert set(found) == {"maze", "spots"} and set(found["maze"]) == {"0", "2"}
    for row in [one for own in found.values() for one in own.values()]:
        assert len(row["steps"]) == STEPS
        assert row["1"] == pytest.approx(row["steps"][0], abs=1e-6)
        assert 0 < row["1"] <= row["worst"] and row["13-30"] <= row["worst"]
