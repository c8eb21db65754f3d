"""A look inside: stencils, stability, reach."""
