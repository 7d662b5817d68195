"""Run untrusted TypeScript in QuickJS inside WebAssembly; host.py is what a program that embeds it calls.

Imports nothing of gatemini. This file imports nothing at all: the command line starts a sandbox process (spawn.py)
before it loads anything else, and a sandbox process does not load what only the gateway needs.
"""
