"""Benchmark, rivals and locust at a size that shows that nothing has rotted."""
