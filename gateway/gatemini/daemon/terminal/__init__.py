"""What the daemon does for commands of the terminal: searches, log levels, files of what backends write to stderr."""
