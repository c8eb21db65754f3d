"""What made the results: benches, kept scores, the results page, shipping of weights."""
