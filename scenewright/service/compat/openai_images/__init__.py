"""The OpenAI Images routes: the official ``openai`` client draws with this service unchanged."""
