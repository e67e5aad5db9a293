"""Where models are asked of the photos of a set: in this process, or on a Ray cluster."""
