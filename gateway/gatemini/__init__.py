"""Gatemini: one MCP server in front of many.

`cli/` starts it, `app.py` puts the parts together, `server/` is what a client sees.
"""

__version__ = "0.1.0"
