"""Prompts in the manner of PSG-Bench: templates × challenges, contrastive pairs, their classes."""
