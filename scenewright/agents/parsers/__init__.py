"""From a caption to a scene graph."""
