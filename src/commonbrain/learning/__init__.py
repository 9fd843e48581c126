"""Learned models: training data, serving, monitoring and rollout."""
