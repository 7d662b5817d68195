"""Backends of `instance_mode: singleton`: one process for all replicas on a store, at the one that has its lease."""
