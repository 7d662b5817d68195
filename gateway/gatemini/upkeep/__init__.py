"""Background work of a running gateway: reload, cache, accounts, readiness of backends."""
