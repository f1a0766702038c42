"""What all the rest stands on: the guard, the process and its recording, what may be asked of the user's objects."""
