"""Kernel families: which variants compute an operator, what each demands, packs, and costs."""
