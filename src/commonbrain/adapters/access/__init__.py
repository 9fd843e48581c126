"""How callers are told by their credentials."""
