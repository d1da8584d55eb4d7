"""A 410 on the first page of a list, which no continue token explains, is a fault."""

from pathlib import Path

import pytest

from extender.cluster.api_connection import ApiConnection, ConnectionFaultError
from extender.cluster.reading_once import ClusterReader, ReadError
from extender.cluster.refused_before import waiting_pods
from tests.fakes.apiserver import PODS, RUNTIME_CLASSES, FakeApiServer, Fault, pod, runtime_class
from tests.fakes.following import config_for


def test_the_listing_of_waiting_pods_fails_and_may_be_tried_again(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(PODS, pod("p", "kata"))
        api.faults[PODS].append(Fault(status=410))
        connection = ApiConnection(config_for(api, tmp_path))
        with pytest.raises(ConnectionFaultError, match="HTTP 410"):
            list(waiting_pods(connection))
        assert [each.pod.name for each in waiting_pods(connection)] == ["p"]


def test_a_command_says_what_the_server_answered(tmp_path: Path) -> None:
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, runtime_class("kata"))
        api.faults[RUNTIME_CLASSES].append(Fault(status=410))
        reader = ClusterReader(config_for(api, tmp_path))
        with pytest.raises(ReadError, match="runtimeclasses: 410"):
            reader.runtime_classes()
        assert set(reader.runtime_classes()) == {"kata"}
