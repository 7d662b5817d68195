"""What runs inside a sandbox process: chains in guests, their steps and messages."""
