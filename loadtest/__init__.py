"""Load tests and benchmarks; docs/performance.md says how they measure and what they showed."""
