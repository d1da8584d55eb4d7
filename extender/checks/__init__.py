"""Lints of a cluster's RuntimeClasses and of a kube-scheduler configuration. Pure, no I/O."""
