"""One file for each thing that can be asked for; `run(request, facts)` does it."""
