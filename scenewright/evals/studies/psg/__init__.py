"""Studies of PSG-Bench."""
