"""The parser for code that the first one does not take."""
