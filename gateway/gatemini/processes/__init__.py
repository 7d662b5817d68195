"""Child processes: how they start, what they may see, and how all that they started ends."""
