"""Parsers: from a caption to a scene graph."""
