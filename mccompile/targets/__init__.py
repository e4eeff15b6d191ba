"""The targets: one small data file each, found by listing this package."""
