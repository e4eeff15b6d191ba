"""Graph passes: one file each, found by listing this package."""
