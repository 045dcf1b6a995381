"""`./run loadtest overload`: more people than can be served, step by step, and how the system holds up."""
