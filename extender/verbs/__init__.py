"""kube-scheduler's verbs: filter, prioritize and preempt, each with its wire format."""
