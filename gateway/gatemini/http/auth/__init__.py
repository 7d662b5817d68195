"""Who a client is: tokens of a file, JWTs of an issuer, and what each may reach."""
