"""Make something happen on purpose, in a recorded child process, and look at it with the same eyes."""
