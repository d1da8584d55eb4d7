"""Shared by all commands: flags, output, tables, completion."""
