"""Protocols of everything that a run is built from, with their requests, replies and errors.

Judges, image backends, composers, detectors, extractors and scorers of realism implement them.
"""
