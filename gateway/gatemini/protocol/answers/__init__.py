"""Answers of the discovery tools."""
