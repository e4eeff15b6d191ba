"""Channels that nothing depends on: followed through the graph, and taken out of it."""
