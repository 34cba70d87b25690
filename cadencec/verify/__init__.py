"""Replays a plan against the stock model, bit for bit, over random walks of the timeline."""
