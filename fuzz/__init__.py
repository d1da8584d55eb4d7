"""Fuzzing: bytes that nobody thought of, for what reads bytes of strangers (make fuzz)."""
