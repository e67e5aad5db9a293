"""Protocols of everything that a run is built from, with their requests, replies and errors.

Judges, image backends, composers, detectors, extractors and scorers of realism implement them.
"""

MAX_SIDE = 4096
"""Longest side of a drawn image in pixels."""
MAX_STEPS = 1000
"""Most denoising steps of one image."""
MAX_PROMPT = 20_000
"""Longest prompt in characters."""
