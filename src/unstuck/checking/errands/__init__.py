"""Files that are read on a Ray cluster. `cluster.py`, one folder up, is the door."""
