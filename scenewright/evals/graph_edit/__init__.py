"""Graph edit distance of scene graphs, and the PSG-style score that it makes."""
