"""The nouns: what was looked at, what it means, what to do. Imports nothing else of ours."""
