"""Configurations that kube-scheduler v1.36.2 starts with, and those that it refuses.

What the real one says of each is looked at in tests/e2e/test_strict_configurations.py.
"""

from typing import Final

import pytest

#: Without a file of that name kube-scheduler ends once it has read and validated all the rest.
NO_KUBECONFIG: Final = "/nonexistent/kubeconfig"

_HEAD: Final = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {NO_KUBECONFIG}}}
"""


def _extender(fields: str) -> str:
    return f"extenders: [{{urlPrefix: 'http://127.0.0.1:8888', {fields}}}]"


#: (what follows the head, the check that finds it; empty where kube-scheduler starts)
_CASES: Final = (
    ("", ""),
    ("parallelism: 16.0", ""),
    ("enableProfiling: yes", ""),
    ("extenders: [null]", ""),
    (_extender("ignorable: null, tlsConfig: null, weight: null"), ""),
    (_extender("weight: 3.0, prioritizeVerb: prioritize"), ""),
    (_extender("tlsConfig: {caData: [45, 45]}"), ""),
    (_extender("httpTimeout: 1.5s"), ""),
    ("profiles: [{}]", ""),
    ("profiles: [{percentageOfNodesToScore: 100}]", ""),
    ("profiles: [{plugins: {placementScore: {enabled: []}, multiPoint: {}}}]", ""),
    ("leaderElection: {leaderElect: false, leaseDuration: 15s}", ""),
    ("percentageOfNodesToscore: 100", "unknown-field"),
    ("metadata: {name: x}", "unknown-field"),
    ("healthzBindAddress: x", "unknown-field"),
    ("percentageOfPlacementsToScore: 1", "unknown-field"),
    ("1: 2", "unknown-field"),
    ("profiles: [{percentageofnodestoscore: 100}]", "unknown-field"),
    ("profiles: [{plugins: {filters: {}}}]", "unknown-field"),
    ("profiles: [{plugins: {filter: {enabled: [{nam: x}]}}}]", "unknown-field"),
    ("profiles: [{pluginConfig: [{name: NodeAffinity, arg: {}}]}]", "unknown-field"),
    ("leaderElection: {leaderelect: false}", "unknown-field"),
    (_extender("urlprefix: x"), "unknown-field"),
    (_extender("tlsConfig: {cafile: x}"), "unknown-field"),
    ("parallelism: 1\nparallelism: 1", "duplicate-key"),
    ("profiles:\n- schedulerName: a\n  schedulerName: a", "duplicate-key"),
    (_extender("ignorable: true, ignorable: true"), "duplicate-key"),
    (_extender("ignorable: maybe"), "wrong-type"),
    (_extender("nodeCacheCapable: 'yes'"), "wrong-type"),
    (_extender("enableHTTPS: 1"), "wrong-type"),
    (_extender("weight: '3'"), "wrong-type"),
    (_extender("weight: 3.5"), "wrong-type"),
    (_extender("filterVerb: 5"), "wrong-type"),
    (_extender("httpTimeout: 5"), "wrong-type"),
    (_extender("httpTimeout: '5'"), "wrong-type"),
    (_extender("httpTimeout: null"), "wrong-type"),
    (_extender("tlsConfig: {caData: '***'}"), "wrong-type"),
    (_extender("managedResources: [x]"), "wrong-type"),
    ("parallelism: 3000000000", "wrong-type"),
    ("enableProfiling: 'true'", "wrong-type"),
    ("leaderElection: []", "wrong-type"),
    ("leaderElection: {leaseDuration: 5}", "wrong-type"),
    ("profiles: [{plugins: []}]", "wrong-type"),
    ("profiles: [{schedulerName: 5}]", "wrong-type"),
    ("percentageOfNodesToScore: 101", "out-of-range"),
    ("percentageOfNodesToScore: -1", "out-of-range"),
    ("profiles: [{percentageOfNodesToScore: 101}]", "out-of-range"),
    ("parallelism: 0", "out-of-range"),
    ("podInitialBackoffSeconds: 0", "out-of-range"),
    ("profiles: [{schedulerName: a}, {schedulerName: a}]", "scheduler-name"),
    ("profiles: [{}, {schedulerName: a}]", "scheduler-name"),
    ("profiles: [{schedulerName: ''}]", "scheduler-name"),
)

CASES: Final = [
    pytest.param(f"{_HEAD}{text}\n".encode(), check, id=text or "nothing but the head")
    for text, check in _CASES
]

#: The checks that say that kube-scheduler refuses the file.
REFUSED: Final = frozenset(check for _, check in _CASES if check)
