"""The operators: one file each, found by listing this package."""
