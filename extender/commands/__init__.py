"""The commands that print something and end: explain, nodes, check, pods and others."""
