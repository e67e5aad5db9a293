"""Steps of the database's schema."""
