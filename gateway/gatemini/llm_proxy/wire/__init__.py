"""Answers of the three providers: the calls in them, what they leave to the client, and their streams."""
