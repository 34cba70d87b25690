"""Plays the captures of a CPU plan on torch."""
