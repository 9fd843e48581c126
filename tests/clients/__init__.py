"""Drives foreign clients; `just clients` installs them and runs these tests."""
