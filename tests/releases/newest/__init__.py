"""The newest release, in the ways that are too long to be done for each."""
