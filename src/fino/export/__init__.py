"""A trained step outside of Python: one description, and what is generated from it."""
