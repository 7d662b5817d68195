"""Files of configuration as text: read with their lines, and edited."""
