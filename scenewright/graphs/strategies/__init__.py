"""Repair strategies: what a round changes, and why."""
