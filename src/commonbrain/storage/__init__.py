"""Stores: the interface, the schema, and what both engines share."""
