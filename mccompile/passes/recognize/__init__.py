"""Passes that recognise an operator in the primitives that an exporter wrote for it."""
