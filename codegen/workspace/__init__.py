"""A tree with its specs and its record, opened for a command: scanned, planned, patched, checked, taken back."""
