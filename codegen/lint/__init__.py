"""Reads every spec and every template, without a Candle tree: what is wrong with them, and what nothing reads."""
