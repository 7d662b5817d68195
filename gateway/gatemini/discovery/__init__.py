"""Find tools: search and generated TypeScript types."""
