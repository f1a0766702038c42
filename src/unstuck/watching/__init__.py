"""The parent of a recorded command, and the watcher beside it, which follows the run from outside."""
