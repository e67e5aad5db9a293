"""What the service tells of itself: metrics, log lines and traces."""
