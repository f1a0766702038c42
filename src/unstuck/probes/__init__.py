"""Look at what exists: one file per section of Evidence."""
