"""Resources, prompts and subscriptions."""
