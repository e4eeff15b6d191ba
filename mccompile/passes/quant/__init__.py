"""Passes that make integer arithmetic of quantised networks."""
