"""State that equal replicas share: one interface, kept in memory or in Redis."""
