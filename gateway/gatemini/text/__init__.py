"""Text for readers: escaped, shortened, truncated, measured."""
