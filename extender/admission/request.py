"""What kube-apiserver asks of a webhook: the request of an AdmissionReview."""

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
        """Whether it is what the in-tree plugin handles: CREATE of pods, of no subresource.

        kube-apiserver always says kind and resource; a review by hand that leaves one out is
        read by the other.
        """
        kind, resource = self.kind, self.resource
        return (
            self.operation == "CREATE"
            and not self.sub_resource
            and (resource is None or (not resource.group and resource.resource == "pods"))
            and (kind is None or (not kind.group and kind.kind == "Pod"))
        )
