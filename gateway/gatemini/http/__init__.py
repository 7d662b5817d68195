"""Streamable HTTP: one MCP endpoint for many clients, with their logins and what each may reach."""
