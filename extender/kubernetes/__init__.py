"""Reads Kubernetes' objects, quantities, versions and YAML."""
