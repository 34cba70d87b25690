"""Measures replay against the stock model in one run."""
