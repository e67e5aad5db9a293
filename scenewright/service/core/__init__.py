"""Runs of the service, kept in a database."""
