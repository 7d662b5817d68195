"""The model of the configuration: every key with its default and its bounds."""
