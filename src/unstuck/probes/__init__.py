"""Look at what is there: processes and their stacks, the machine, files, and what the watchers of a run left."""
