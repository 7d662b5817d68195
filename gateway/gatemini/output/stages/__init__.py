"""The stages of a reduction: each changes the draft of the answer, or leaves it as it is."""
