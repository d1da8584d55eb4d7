"""Whether objects are what kube-apiserver v1.36.2 would accept. Pure, no I/O.

Answers are lists of FieldError, empty for a valid object, in the texts of the API server.
"""
