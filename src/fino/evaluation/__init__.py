"""The scales: metrics, spectra, cost, scores."""
