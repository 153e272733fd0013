"""A simulated student and writer for benchmarks/simulated.py: what is true is known."""
