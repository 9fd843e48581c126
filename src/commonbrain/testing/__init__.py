"""Test support for plug-in authors: the embedder contract and small test doubles."""
