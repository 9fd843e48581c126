"""Traces: why something came about, what came of it, and how good the evidence is."""
