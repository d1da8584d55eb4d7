"""Where the snapshot comes from: manifests or the API server."""
