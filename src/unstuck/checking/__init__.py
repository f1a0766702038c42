"""Reads data files as training would, and notes what is wrong with them. What it means, rules say."""
