"""Embedders: the local default, HTTP endpoints, and their caches."""
