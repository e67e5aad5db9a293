"""Sentinel pictures and a sequential test: notice a model exchanged behind its old name."""
