"""The API server: connection, list, watch."""
