"""The door: one file per command."""
