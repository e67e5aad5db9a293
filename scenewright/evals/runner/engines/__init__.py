"""Where the items of an evaluation are worked on: in this process, or on a Ray cluster."""
