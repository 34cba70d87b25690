"""What `cadencec run` does: drives a session of a plan from a file, and writes what comes out."""
