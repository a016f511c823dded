"""Phases written into a tree and taken back, all files or none; the record of what is applied."""
