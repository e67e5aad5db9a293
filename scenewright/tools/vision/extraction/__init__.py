"""From an image to the scene graph that is seen in it, in one stage or in two."""
