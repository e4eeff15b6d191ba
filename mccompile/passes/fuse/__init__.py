"""Passes that make several nodes one: epilogues, prologues, siblings."""
