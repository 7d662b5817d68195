"""Requests of the three providers as their bytes, with the places of what may change."""
