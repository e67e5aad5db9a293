"""Report cards of judges."""
