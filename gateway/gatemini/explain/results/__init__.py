"""What the results of a chain's calls say about the code that reads them."""
