"""`gatemini llm-proxy`: a local proxy between a program and the API of its model, which makes requests smaller."""
