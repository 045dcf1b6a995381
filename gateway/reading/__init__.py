"""What clients write, field by field: terms, asks, texts, cursors, days in IDs, and instants, read and written."""
