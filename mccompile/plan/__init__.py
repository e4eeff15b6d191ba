"""Kernel IR to program IR: execution order, lifetimes, the allocator portfolio, proof."""
