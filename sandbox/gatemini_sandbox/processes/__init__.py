"""Sandbox processes: how they are started, confined, supervised and replaced."""
