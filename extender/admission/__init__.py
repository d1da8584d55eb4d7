"""The webhook: merge, validate, review; and the command render."""
