"""Tape -> CUDA graph, written down node by node."""
