"""Observability of the service: metrics, log lines and traces."""
