"""Commonbrain as the memory of agent frameworks: LangGraph, LangChain, LlamaIndex and others."""
