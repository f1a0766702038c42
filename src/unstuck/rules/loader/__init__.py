"""DataLoaders and their workers."""
