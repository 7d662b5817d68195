"""The command line. `main.py` decides what to load; each other file holds the commands of one subject."""
