"""The walls: tables, figures, movies, pages."""
