"""Sections of a report that are no findings: what each rank does, how the run began, what is open."""
