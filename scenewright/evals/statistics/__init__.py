"""Means with intervals, correlations, paired comparisons."""
