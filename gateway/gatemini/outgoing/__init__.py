"""What all HTTP requests that the gateway itself makes have in common."""
