"""The thin runtime: loads a plan and replays it, without the compiler and without the model."""
