"""Hooks of coding agents: errors and delays never reach the agent."""
