"""Model repositories on the Hugging Face hub: required, cached and fetched files."""
