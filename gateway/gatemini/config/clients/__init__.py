"""Configuration files of other MCP clients: where they are, what they hold, and how it becomes ours."""
