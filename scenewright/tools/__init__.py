"""Image backends, computer vision, and the arguments of the director's tools."""
