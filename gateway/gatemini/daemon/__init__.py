"""The daemon: one process that owns the backends of a configuration and serves many clients on a Unix socket."""
