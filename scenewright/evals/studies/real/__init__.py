"""REAL: realism of attributes, relations and style, and what of a set is fit to train on."""
