"""The audit log: what left for backends, how it ended, and what was decided, in files that show changes."""
