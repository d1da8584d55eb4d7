"""The command check: lints of classes, nodes, files and scheduler configurations."""
