"""Silently wrong: the run goes on, but not on the data that was meant."""
