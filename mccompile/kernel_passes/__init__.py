"""Passes on kernel IR, one file each: copies forwarded, planes stored, code shared."""
