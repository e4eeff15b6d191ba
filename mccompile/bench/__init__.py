"""Measures compiled networks on this machine: whole, layer by layer, and against its peak."""
