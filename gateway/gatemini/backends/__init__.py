"""Backends: the MCP servers and command lines that the gateway calls."""
