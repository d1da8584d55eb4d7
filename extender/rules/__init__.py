"""Decides whether a pod may run on a node, and gives the evidence."""
