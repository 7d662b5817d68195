"""Pins: what a backend was when it was approved, and whether it still is that."""
