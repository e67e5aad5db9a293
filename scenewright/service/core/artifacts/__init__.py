"""Files of runs for servers and workers without a disk in common."""
