"""Changes to stored memories: revise, forget, undo and review."""
