"""The model of cycles: register tiles, vectors of expressions, traffic."""
