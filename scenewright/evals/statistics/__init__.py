"""Means with intervals, correlations and paired comparisons."""
