"""Days that leave the hot tables, step by step."""
