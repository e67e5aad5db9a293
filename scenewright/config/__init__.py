"""Settings, profiles and accounts."""
