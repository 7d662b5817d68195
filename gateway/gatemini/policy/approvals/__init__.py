"""Approvals: calls that wait until a person has agreed, and the grants that persons have given."""
