"""The service: one process that keeps runs, drives them and shows them over HTTP."""
