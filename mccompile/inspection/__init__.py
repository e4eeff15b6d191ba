"""Says what is in a model, what of it is supported, and what it would need."""
