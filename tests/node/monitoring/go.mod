// The definitions of the Prometheus operator's kinds, of which no program is built.
module runtimeclass-extender/monitoring

go 1.24

require github.com/prometheus-operator/prometheus-operator v0.85.0
