"""Large JSON read in pieces, so that nobody else waits for the interpreter meanwhile."""
