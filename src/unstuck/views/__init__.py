"""Show a Report. A view computes nothing: what it shows is in the report."""
