"""Commonbrain among other memories: the same texts, questions and embedder for each."""
