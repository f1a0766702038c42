"""What a training does beside its steps: calls into loggers, values that are logged, checkpoints."""
