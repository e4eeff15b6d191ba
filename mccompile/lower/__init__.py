"""Graph IR to kernel IR: a variant for each node, buffers and views for its values."""
