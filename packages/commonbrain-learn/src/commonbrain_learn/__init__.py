"""Trained ranking for Commonbrain: training, registry, rollout and serving of rerankers."""
