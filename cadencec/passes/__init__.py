"""Tape -> Tape: one pass a module, one switch a pass."""
