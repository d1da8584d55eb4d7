"""Whether kube-scheduler finds its API server.

cmd/kube-scheduler/app/options/options.go (ApplyTo, createKubeConfig) and BuildConfigFromFlags of
client-go's tools/clientcmd, v1.36.2: with --config, kube-scheduler does not read its --kubeconfig
flag; with no clientConnection.kubeconfig it takes the service account of its pod, and exits where
it runs outside of one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender.checks.config_fields import Circumstances, SchedulerConfigError, read_object
from extender.checks.finding import Finding, Severity

_PLACE: Final = "clientConnection"


def check_client_connection(
    document: Mapping[str, Any], circumstances: Circumstances
) -> Iterator[Finding]:
    connection = read_object(document.get(_PLACE), _PLACE)
    kubeconfig = connection.get("kubeconfig")
    if kubeconfig is not None and not isinstance(kubeconfig, str):
        raise SchedulerConfigError(
            f"{_PLACE}.kubeconfig: expected a string, got {type(kubeconfig).__name__}"
        )
    if kubeconfig or circumstances.in_pod:
        return
    ends = (
        "kube-scheduler ends with: invalid configuration: no configuration has been provided"
        " (its own --kubeconfig is not read beside --config)"
    )
    sure = circumstances.in_pod is False
    unless = "" if sure else ", unless it runs in a pod with a service account; --in-pod says so"
    yield Finding(
        Severity.ERROR if sure else Severity.WARNING,
        "kubeconfig",
        f"{_PLACE}.kubeconfig is {'empty' if kubeconfig is not None else 'missing'}",
        f"{ends}{unless}",
        "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}",
    )
