"""The MCP server, its resources, and the stdio proxy."""
