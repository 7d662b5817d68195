"""Commands of the terminal on a socket, and what the daemon does for them: searches, log levels, files of stderr."""
