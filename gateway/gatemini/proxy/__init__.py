"""The process that MCP clients start: it joins their stdin and stdout to the daemon's socket."""
