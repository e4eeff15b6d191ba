"""The report: one dictionary that everything printed about a compilation is derived from."""
