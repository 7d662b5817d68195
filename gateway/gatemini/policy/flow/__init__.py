"""The data-flow guard: labels of what a session has read, and the calls that could carry it away."""
