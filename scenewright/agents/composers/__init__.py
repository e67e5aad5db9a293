"""Composers: from a scene graph to the prompt of a text-to-image model."""
