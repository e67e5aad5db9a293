"""Public benchmarks as recipes: what is drawn and scored, and how scores are put together."""
