"""Backends that a client registers while the gateway runs."""
