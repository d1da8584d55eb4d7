"""Bytes ↔ values, a file for each format. Nothing here decides, waits or knows HTTP."""
