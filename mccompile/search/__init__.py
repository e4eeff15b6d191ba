"""The search for a program that fits: what is asked for, candidates, the first that fits."""
