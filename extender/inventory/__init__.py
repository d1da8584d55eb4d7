"""Commands and endpoints about the use of RuntimeClasses by pods, workloads and nodes."""
