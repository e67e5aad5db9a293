"""Sets of items to evaluate on: loaders that stream, sampling, statistics, downloads."""
