"""From the names in a profile to models, each built once a process."""
