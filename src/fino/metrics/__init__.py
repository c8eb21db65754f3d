"""How wrong a prediction is: metrics, spectra, intervals, and the scores that hold them."""

from fino.metrics.errors import (
    METRICS,
    Metric,
    area_weights,
    boundary_rmse,
    conserved_error,
    correlation,
    correlation_time,
    error_over_time,
    fourier_error,
    max_error,
    metric_named,
    nrmse,
    rmse,
)
from fino.metrics.scores import Score, Scores, score

__all__ = [
    "METRICS",
    "Metric",
    "Score",
    "Scores",
    "area_weights",
    "boundary_rmse",
    "conserved_error",
    "correlation",
    "correlation_time",
    "error_over_time",
    "fourier_error",
    "max_error",
    "metric_named",
    "nrmse",
    "rmse",
    "score",
]
