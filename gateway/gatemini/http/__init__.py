"""Streamable HTTP: one MCP endpoint for many clients, who they are, and what each may reach."""
