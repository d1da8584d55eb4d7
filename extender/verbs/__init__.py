"""The verbs: pure functions of a pod, a snapshot and the nodes asked about."""
