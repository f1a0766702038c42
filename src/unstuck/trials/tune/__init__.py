"""`unstuck tune`: finds settings of a loader by measuring few of them."""
