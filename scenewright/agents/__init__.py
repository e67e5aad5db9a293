"""Judges, panel, composers, parsers and chat models: everything that calls a language model."""
