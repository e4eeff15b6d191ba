"""Measures the candidates of a model's nodes on this machine and makes the cost table that selection follows."""
