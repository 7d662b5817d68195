"""The ways to reach a backend: a child process, HTTP, command lines, a server object in this process."""
