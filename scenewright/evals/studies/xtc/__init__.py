"""XTC-Bench: agreement between what a model draws and what it understands."""
