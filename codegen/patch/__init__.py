"""Texts: what changed in them and why, as edits, diffs and patches; what is done to any text, whatever made it."""
