"""``semimedref model``: what networks there are, what they are made of, and their checkpoints."""
