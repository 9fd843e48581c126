"""The benchmarks' own machinery: what they compare, not how fast it is."""
