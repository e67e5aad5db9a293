"""Rehearsals: published architectures with random weights, run through the shapes of the loop."""
