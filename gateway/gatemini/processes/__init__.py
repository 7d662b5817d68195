"""Processes that the gateway starts, and how they end."""
