"""Data sets to evaluate on: streaming loaders, sampling, statistics, downloads."""
