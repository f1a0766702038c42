"""Runs in a child process, in the user's interpreter: the standard library, torch, and what the user has.

It is loaded by its path under a name of its own, so that unstuck itself need not be installed there.
"""
