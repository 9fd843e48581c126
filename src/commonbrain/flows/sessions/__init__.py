"""Sessions: who is at work on what, and by what evidence somebody no longer is."""
