"""Connections, TLS, and from where and to which host requests may come."""
