"""Kernel IR to program IR: execution order, memory forwarding, the allocator portfolio."""
