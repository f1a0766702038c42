"""Reads what `inside` wrote."""
