"""Language models of accounts as LangChain chat models, and scripted ones."""
