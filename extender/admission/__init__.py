"""PURE: what RuntimeClass admission makes of a pod (plugin/pkg/admission/runtimeclass, v1.36.2)."""
