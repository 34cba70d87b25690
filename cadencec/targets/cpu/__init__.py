"""Tape -> capture for the CPU player."""
