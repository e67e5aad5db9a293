"""AUTOMATIC1111's routes, as far as plug-ins that draw from words need them."""
