"""What kube-scheduler asks: filter, prioritize, preempt, each with its wire form beside it."""
