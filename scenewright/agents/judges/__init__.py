"""Judges: models that answer facts about a picture."""
