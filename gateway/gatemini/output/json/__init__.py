"""JSON as JavaScript means it: read whole or one level at a time, and written."""
