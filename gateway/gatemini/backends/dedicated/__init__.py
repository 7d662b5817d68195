"""Backends with an instance for each session: their processes, and what sessions bring for them."""
