"""Recipes that train the models of the painted world."""
