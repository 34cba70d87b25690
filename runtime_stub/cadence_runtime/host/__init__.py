"""The host program: guards, effects and the one `advance` that everyone uses."""
