"""The paths through the house: each fetches, lets the domain decide, and commits."""
