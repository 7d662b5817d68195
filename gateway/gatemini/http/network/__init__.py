"""Connections, TLS, and the checks of a request's address, Host and Origin."""
