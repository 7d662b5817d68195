"""Values between backends, code and answer: results, media, handles, large JSON."""
