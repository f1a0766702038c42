"""Text logs of a run: written beside it from its recordings, read back by `unstuck logs` and `unstuck.log_to`."""
