"""Backends and local judges as Ray Serve deployments; see ``docs/scaling.md``."""
