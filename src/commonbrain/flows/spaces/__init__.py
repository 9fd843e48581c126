"""The vector spaces of a store: built beside each other, compared, switched and dropped."""
