"""Pods, nodes, classes, shapes, names and reasons: plain values."""
