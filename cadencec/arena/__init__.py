"""Lifetimes -> offsets: the planner, and a checker that shares no code with it."""
