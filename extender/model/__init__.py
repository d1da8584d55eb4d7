"""Pods, nodes, classes, names and reasons as plain values."""
