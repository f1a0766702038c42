"""The scenarios as a user meets them: a small training, really broken, run under unstuck."""
