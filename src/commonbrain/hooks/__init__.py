"""Hooks for coding agents, which never break the agent."""
