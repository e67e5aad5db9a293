"""MCP: the service for agents, over stdio and streamable HTTP."""
