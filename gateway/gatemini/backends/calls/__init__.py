"""What one call of a backend meets: limits, retries, and the errors it may end with."""
