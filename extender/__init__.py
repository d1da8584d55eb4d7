"""A kube-scheduler extender that enforces and explains RuntimeClass scheduling."""

__version__ = "0.1.0"
