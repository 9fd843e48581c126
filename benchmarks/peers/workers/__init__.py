"""One program a memory, each run by the interpreter of the environment it is installed in."""
