"""What is rendered from the chart and kept: files to apply with kubectl alone.

`make manifests` writes them anew; a test compares them byte for byte.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parent.parent
CHART: Final = ROOT / "chart"

#: Of the kube-scheduler that the files name.
KUBERNETES: Final = "v1.36.2"

_NAMESPACE: Final = ("createNamespace=true", "certificates=cert-manager")

_REGISTRATION: Final = "install/webhook-registration.yaml"

#: file → (release and namespace, values)
FILES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "install/second-scheduler.yaml": (
        "runtimeclass-scheduler",
        ("secondScheduler.enabled=true", *_NAMESPACE),
    ),
    "install/remote.yaml": ("runtimeclass-extender", ("remote.enabled=true", *_NAMESPACE)),
    "install/webhook.yaml": (
        "runtimeclass-webhook",
        ("webhook.enabled=true", "webhook.register=false", *_NAMESPACE),
    ),
    _REGISTRATION: ("runtimeclass-webhook", ("webhook.enabled=true", *_NAMESPACE)),
    "install/control-plane.yaml": ("runtimeclass-extender", ("controlPlane.enabled=true",)),
    "install/viewer.yaml": ("runtimeclass-viewer", ("viewer.enabled=true",)),
    "install/monitoring.yaml": (
        "monitoring",
        tuple(
            f"monitoring.{each}=true"
            for each in ("serviceMonitor", "podMonitor", "rules", "dashboard")
        ),
    ),
    **{
        f"scheduler-config/policies/{folder}/policy.yaml": (
            "runtimeclass-policies",
            (f"policies.{value}=true",),
        )
        for folder, value in {
            "allowed-classes": "allowedClasses",
            "required-class": "requiredClass",
            "default-class": "defaultClass",
            "mark": "mark",
            "guard": "guard",
        }.items()
    },
}

#: KubeSchedulerConfigurations of the second scheduler: name → values
VARIANTS: Final = {
    f"{plugin}-plugin{'-marked' * marked}": (
        f"plugin={plugin.removesuffix('-of')}",
        f"secondScheduler.marked={str(marked).lower()}",
    )
    for plugin in ("beside", "instead-of")
    for marked in (False, True)
}


def helm() -> str | None:
    """Where it is: `make helm` puts it beside the programs of Kubernetes."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin")
    return shutil.which("helm", path=folder) or shutil.which("helm")


def rendered(release: str, *values: str, flags: tuple[str, ...] = ("--skip-tests",)) -> str:
    """What `helm template` prints with these values."""
    program = helm()
    assert program, "there is no helm: make helm"
    command = [program, "template", release, str(CHART), "--namespace", release]
    command += ["--kube-version", KUBERNETES, *flags, *(f"--set={each}" for each in values)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def configuration(*values: str) -> str:
    """The second scheduler's KubeSchedulerConfiguration with these values."""
    text = rendered("runtimeclass-scheduler", "secondScheduler.enabled=true", *values)
    (found,) = (
        each["data"] for each in yaml.safe_load_all(text) if each and each["kind"] == "ConfigMap"
    )
    return str(found["kube-scheduler.yaml"])


def files() -> dict[str, str]:
    """Path in the repository → content."""
    made = {path: rendered(release, *values) for path, (release, values) in FILES.items()}
    service = set(made["install/webhook.yaml"].split("\n---\n"))
    made[_REGISTRATION] = "\n---\n".join(
        each for each in made[_REGISTRATION].split("\n---\n") if each not in service
    )
    for name, values in VARIANTS.items():
        made[f"scheduler-config/second-scheduler/{name}.yaml"] = configuration(*values)
    return {path: f"# Made from chart/ by `make manifests`.\n{text}" for path, text in made.items()}


def main() -> int:
    for path, text in files().items():
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
