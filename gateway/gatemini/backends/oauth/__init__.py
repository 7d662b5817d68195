"""Login to HTTP backends by OAuth: discovery, the flows, stored tokens and their renewal."""
