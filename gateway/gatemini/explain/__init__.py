"""Explain a failed chain: from the error, facts about the program and its calls to the text an agent acts on."""
