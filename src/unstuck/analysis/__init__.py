"""What several rules conclude from evidence, by topic."""
