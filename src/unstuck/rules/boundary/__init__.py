"""Around the steps: checkpoints, loggers, output, compiling, garbage collection, and the time between epochs."""
