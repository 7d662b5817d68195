"""Sessions of clients: what belongs to one, which are open, and how much its client reads of an answer."""
