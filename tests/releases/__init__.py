"""Real Candle releases, patched, built and tested."""
