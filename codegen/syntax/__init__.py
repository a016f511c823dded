"""Rust syntax: parsing, backend sites, and the verbs that derive ROCm forms. tree-sitter is used here only."""
