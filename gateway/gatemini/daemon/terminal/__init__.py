"""What commands of the terminal ask of a daemon: the side that asks, and searches as the terminal shows them."""
