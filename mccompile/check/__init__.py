"""Builds generated C with the system's compiler, runs it, and compares it with a reference."""
