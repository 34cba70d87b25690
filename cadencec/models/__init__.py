"""Adapters for released models, each behind an extra; a spec names them, nothing imports them."""
