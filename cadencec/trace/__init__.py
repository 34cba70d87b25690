"""Model -> Tape: runs a stage for real at one shape key and records its ops."""
