"""The model of the section `http`."""
