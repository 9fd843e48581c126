"""Causes for Commonbrain: what a text says about causes and effects, stored as atoms."""
