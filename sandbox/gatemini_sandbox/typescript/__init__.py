"""Agents' TypeScript: parsed, made into JavaScript, and diagnosed where it is wrong.

Importing this package loads no parser, so that the gateway can use `syntax_error` without one.
"""
