"""Passes over operators that only move elements."""
