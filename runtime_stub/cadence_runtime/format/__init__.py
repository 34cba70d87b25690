"""Reader, writer and validator of the plan file; standard library only."""
