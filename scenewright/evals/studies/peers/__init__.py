"""The metrics of others on the same pictures and judges."""
