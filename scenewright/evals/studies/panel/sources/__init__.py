"""Where tables of answers come from."""
