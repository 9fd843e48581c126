"""Test support for authors of plug-ins: contracts of their seams, and small test doubles."""
