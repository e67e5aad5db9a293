"""Scenes, facts, questions, the vocabulary, images and the protocols of all models."""
