"""What stretches of a run are called."""

from __future__ import annotations

TRAINING, VALIDATION, CHECKPOINT, PREDICTION = "training", "validation", "checkpoint", "prediction"
UNKNOWN = ""
