"""The reference pages, generated from the program's tables."""
