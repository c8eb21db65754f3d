"""What made the results and is not installed: benches, kept scores, the results page, shipping."""
