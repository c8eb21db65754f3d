"""From nothing to a result: recipes and their runs."""
