"""Evaluations: how well what this product judges agrees with people, on data that ships with it."""
