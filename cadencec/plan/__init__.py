"""Assembles a plan from timeline, tapes, layout and captures; the file format lives in the runtime."""
