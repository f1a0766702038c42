"""Everything of unstuck that runs inside the user's training process.

Standard library only and self-contained: under `unstuck run` this package is loaded from its folder as
`_unstuck_inside`, in an environment that may never have heard of unstuck.
"""
