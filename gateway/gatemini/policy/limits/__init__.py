"""How often sessions and clients may call, in this process and over all replicas."""
