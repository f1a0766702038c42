"""`unstuck doctor`: climbs a ladder of trials, and says where a loader fails first and what limits it."""
