"""The result store: whole results behind handles, in memory and in private files."""
