"""Where the state of a cluster comes from: --manifests, or --kubeconfig and --context."""

from dataclasses import dataclass

from extender.flags import UsageError


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The flags; without any of them, the cluster is found as kubectl finds it.

    uses: what uses the RuntimeClasses is of interest too, which is what --watch-pods says.
    Raises UsageError when they exclude each other.
    """

    manifests: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    watch_list: bool = True
    uses: bool = False

    def __post_init__(self) -> None:
        if self.manifests and (self.kubeconfig or self.context):
            raise UsageError("--manifests and --kubeconfig or --context exclude each other")

    @property
    def is_given(self) -> bool:
        return bool(self.manifests or self.kubeconfig or self.context)
