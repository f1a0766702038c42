"""Data files that are damaged, incomplete or not what they should be."""
