"""Revising: one seam per sort of change, planned by the first four and carried out by pipeline."""
