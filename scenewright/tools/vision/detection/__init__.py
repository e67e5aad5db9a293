"""Where things are in a picture: the port of detectors, and models behind it."""
