"""The networked doors: REST and MCP over HTTP, in one process, for callers with credentials."""
