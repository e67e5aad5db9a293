"""Base class of the errors that the package raises on purpose."""


class ScenewrightError(Exception):
    """Something cannot be done; the message says what, where, and what to do about it."""
