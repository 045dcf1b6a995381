"""Databases on their way to another SET: by time, nearly copy-free, or live, with a stall of at most two seconds."""
