"""Tests of a store that is distributed by tenant over several servers with Citus."""
