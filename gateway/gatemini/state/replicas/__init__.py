"""What replicas on one store do together: messages from one to another, and leases on what only one may have."""
