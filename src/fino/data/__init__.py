"""The shelves: cards, files, splits and windows."""
