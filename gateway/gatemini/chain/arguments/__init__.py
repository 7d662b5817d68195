"""Arguments of a call checked against the schema of its tool."""
