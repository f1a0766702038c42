"""Ranks of a distributed run: who waits for whom, and why."""
