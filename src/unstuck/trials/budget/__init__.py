"""`unstuck budget`: predicts memory and /dev/shm of a loader before it runs."""
