"""The lints of the registry, a file for each subject."""
