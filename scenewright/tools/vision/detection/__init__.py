"""Detectors: models that find things in a picture, and records of their results."""
