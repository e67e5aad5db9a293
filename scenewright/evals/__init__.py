"""Measuring: how good judges are, on facts whose truth is known."""
