"""Metrics of a picture, or of a set of pictures: each is a small plug-in."""
