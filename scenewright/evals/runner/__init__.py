"""Evaluations at scale: configuration, items, engines, plans."""
