"""Values of the configuration as people write them: durations, sizes, patterns and expressions."""
