"""Processes that compute for the gateway, so that its event loop does not wait."""
