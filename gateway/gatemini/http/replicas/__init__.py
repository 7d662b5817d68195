"""Several replicas behind a balancer: sessions that move, and requests that belong to another replica."""
