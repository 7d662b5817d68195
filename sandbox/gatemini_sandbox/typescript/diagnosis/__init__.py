"""Say what is wrong with agents' code, and where: syntax errors, and the places of errors at run time."""
