"""Backends and local judges as Ray Serve deployments; see ``docs/serving.md``."""
