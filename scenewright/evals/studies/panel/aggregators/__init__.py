"""Ways to make one probability a fact of the answers of several judges."""
