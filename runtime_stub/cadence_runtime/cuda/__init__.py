"""Plays the captures of a CUDA plan on the driver API; never imports torch."""
