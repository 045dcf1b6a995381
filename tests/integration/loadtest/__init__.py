"""Benchmark, baselines and locust at a size that shows that nothing has rotted."""
