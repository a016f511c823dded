"""Benchmarks: two things compared in one run, never a timed test."""
