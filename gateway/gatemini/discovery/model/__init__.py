"""The search model, which runs in a process of its own."""
