"""The nodes of the loop, one a file; ``graphs/refine.py`` joins them."""
