"""The request of an AdmissionReview, which kube-apiserver sends to a webhook."""

from typing import Final

from msgspec import Raw, Struct

_NULL: Final = Raw(b"null")


class _Kind(Struct):
    group: str | None = None
    kind: str | None = None


class _Resource(Struct):
    group: str | None = None
    resource: str | None = None


class AdmissionRequest(Struct, rename="camel"):
    uid: str | None = None
    kind: _Kind | None = None
    resource: _Resource | None = None
    sub_resource: str | None = None
    operation: str | None = None
    namespace: str | None = None
    object: Raw = _NULL

    @property
    def creates_pod(self) -> bool:
        """Whether the in-tree plugin handles the request: CREATE of pods, of no subresource.

        kube-apiserver always sends kind and resource; in a review written by hand one of them is
        enough.
        """
        kind, resource = self.kind, self.resource
        return (
            self.operation == "CREATE"
            and not self.sub_resource
            and (resource is None or (not resource.group and resource.resource == "pods"))
            and (kind is None or (not kind.group and kind.kind == "Pod"))
        )
