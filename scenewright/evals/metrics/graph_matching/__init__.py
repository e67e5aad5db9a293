"""Matching of scene graphs: which object of one is which of the other (XTC-Bench, Sec. 3.2.6)."""
