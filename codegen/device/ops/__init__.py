"""One module per kernel family: tensors in, launches planned from the spec's numbers, tensors out.

What the Rust backend decides for the same op is planned here for tests and benchmarks; the rules are the same.
"""
