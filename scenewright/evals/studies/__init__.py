"""Studies: the tables and figures of papers, measured anew."""
