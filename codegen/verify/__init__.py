"""Proof that a patched Candle builds and runs: cargo driver, oracles, provenance of errors, and the machine's state."""
