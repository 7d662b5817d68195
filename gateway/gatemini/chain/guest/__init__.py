"""The guest that runs a script: its limits, and the replies on their way to it."""
