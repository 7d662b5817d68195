"""Requests of backends to the client: elicitation, sampling, roots."""
