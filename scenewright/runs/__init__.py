"""A run: from a scene and a profile to a folder."""
