"""Kernels of matrix products and attention."""
