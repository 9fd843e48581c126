"""What the flows need of the world, as small protocols."""
