"""Reflecting: what several memories tell together becomes an episode, and proposals."""
