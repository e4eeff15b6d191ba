"""Chains of local operators in strips of rows: regions, the windows they need, the cut."""
