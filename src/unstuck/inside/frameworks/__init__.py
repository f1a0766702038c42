"""Trainers that run the loop themselves, and accelerate, which makes loaders of others."""
