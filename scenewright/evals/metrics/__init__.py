"""What is measured of a picture, or of a set of pictures: each metric is a small plug-in."""
