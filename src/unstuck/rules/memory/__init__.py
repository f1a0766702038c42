"""Memory: kills, growth, limits."""
