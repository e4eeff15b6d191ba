"""Passes that rest on algebra: affine maps go into weights, products are composed, windows enlarged."""
