"""Generates an AMD ROCm backend for Candle: parse, plan, show, apply, check, revert, verify."""

__version__ = "0.1.0"
