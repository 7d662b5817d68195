"""The text of a chain before it is planned: markdown around it, JavaScript literals, bounds."""
