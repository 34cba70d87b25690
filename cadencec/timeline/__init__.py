"""Spec -> Timeline: the configurations that can occur, the demand of every region, the closure checker."""
