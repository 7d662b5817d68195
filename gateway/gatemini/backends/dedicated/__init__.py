"""Backends with an instance for each session: their processes, and the values of sessions for them."""
