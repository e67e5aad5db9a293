"""Model repositories on the Hugging Face hub: what a profile needs, what is here, fetching it."""
