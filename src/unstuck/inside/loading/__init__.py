"""DataLoaders: how each is made, where its passes stand, what its workers fetch, and what their samples cost."""
