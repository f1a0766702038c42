"""Follows a live run from outside."""
