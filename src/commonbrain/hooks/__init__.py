"""Hooks of coding agents, which never break the agent."""
