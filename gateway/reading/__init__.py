"""What clients write, read field by field: terms of a create, asks of an open, texts, instants, cursors, days."""
