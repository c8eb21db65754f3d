"""The walls: tables, figures, movies, the paper's numbers, and one page that shows them all."""
