"""Loaders that were tried on purpose, by the doctor."""
