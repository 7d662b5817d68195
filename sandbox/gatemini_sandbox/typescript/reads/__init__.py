"""Find the members that code reads from the results of tool calls, by reading the code and without running it."""
