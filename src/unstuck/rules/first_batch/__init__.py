"""The way to the first batch, and loaders that are only a generator."""
