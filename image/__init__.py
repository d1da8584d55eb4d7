"""How the container image is made, and its steps without a container engine."""
