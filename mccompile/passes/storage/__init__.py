"""Passes that decide how values are stored: layouts and element types."""
