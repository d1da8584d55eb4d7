"""The HTTP side: decode → verb → encode."""
