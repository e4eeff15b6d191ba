"""Views as loop nests, lines, planes and windows see them."""
