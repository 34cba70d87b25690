"""Tape -> capture: one package a target."""
