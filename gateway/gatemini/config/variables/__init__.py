"""Variables and secrets in a configuration: where their values come from, and how they are hidden."""
