"""Logins over HTTP: tokens of a file, JWTs, introspection by the issuer, and the grant of each client."""
