"""The LangGraph machines: loop, verification and director."""
