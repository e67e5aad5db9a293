"""Engines that work on the items of an evaluation: in this process, or on a Ray cluster."""
