"""Passes that leave less of the same: constants folded, duplicates and dead nodes gone, expressions simplified."""
