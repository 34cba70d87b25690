"""cadencec: an ahead-of-time compiler for the streaming tail of speech models."""

__version__ = "0.1.0"
