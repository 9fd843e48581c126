"""Adapters for agent frameworks, each in a module of its name."""
