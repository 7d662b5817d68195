"""Filtering of tool definitions: what is predicted, what stays, how well that fits."""
