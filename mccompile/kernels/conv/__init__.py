"""Kernels of convolution."""
