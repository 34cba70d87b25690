"""Compares the replay of a plan with the stock model, in time and memory.

Nothing is imported here: the process that measures a replay comes by, and must not meet torch.
"""
