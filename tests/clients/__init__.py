"""Drives clients that nobody here wrote; `just clients` installs them and runs these tests."""
