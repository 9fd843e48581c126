"""The HTTP server: REST, MCP over HTTP, health."""
