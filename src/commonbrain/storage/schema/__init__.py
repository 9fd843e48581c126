"""The tables of a store, by topic."""
