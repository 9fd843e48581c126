"""Speed and memory, measured in one go and never asserted: `python -m benchmarks --help`."""
