"""What passes rewrite graphs with: patterns, a graph under change, dominators, the cost of bodies."""
