"""The write path: pipeline over normalise, prepare, neighbours and commit."""
