"""Tar archives: headers, members, and the samples that they form."""
