"""How good a run is, in numbers: metrics with intervals, costs, and baselines beside them."""
