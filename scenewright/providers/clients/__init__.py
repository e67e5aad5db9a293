"""Clients of providers: one a provider, for judges, chat models, decision models and images."""
