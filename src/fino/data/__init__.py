"""Data sets: cards, files, splits; generated, opened or given as arrays."""
