"""Undoing: what an agent, a session or a time changed is taken back by its before-images."""
