"""Sessions of a daemon: found by their token, and kept on the disk for the next one."""
