"""The rules of `policy`: compiled once, matched for every call."""
