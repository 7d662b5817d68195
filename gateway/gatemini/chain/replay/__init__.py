"""The record of a chain, and how an interrupted one is resumed from it."""
