"""render as a process: what it prints is a file like any other."""

import json
from typing import Final

import pytest
import yaml

from extender.kubernetes.yaml_documents import yaml_documents
from tests.conformance.test_rendering import listed
from tests.processes import ROOT, run

FOLDER: Final = ROOT / "tests" / "workloads" / "folder"
CLUSTER: Final = ("--manifests", str(FOLDER.parent / "cluster"))


def test_strings_stay_strings_to_kubernetes() -> None:
    words = [
        *("y", "No", "on", "1e3", "0o14", "014", "1_0", "0x1f", ".5", "1:30", "~", "", "=", "<<"),
        *("null", "2001-01-01", ".inf", "-", "a: b", "#x", "*a", "two\nlines\n", " a", "é", "😀"),
    ]
    data = {word: word for word in words}
    config = {"kind": "ConfigMap", "data": data, "numbers": [1, 1.5, 1e30]}
    text = run("render", "-f", "-", "-o", "yaml", *CLUSTER, stdin=json.dumps(config)).stdout
    (found,) = yaml_documents(text.encode())
    assert found == yaml.safe_load(text) == config
    assert "two\n" in text


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_a_folder_is_one_stream_of_all_its_objects_and_rendered_again_it_stays(output: str) -> None:
    texts = [file.read_text() for file in sorted(FOLDER.iterdir())]
    kinds = [each["kind"] for text in texts for each in yaml.safe_load_all(text) if each]
    result = run("render", "-f", str(FOLDER), *CLUSTER, "-o", output)
    found = listed(result.stdout) if output == "json" else yaml.safe_load_all(result.stdout)
    if output == "json":
        kinds[kinds.index("List")] = "ReplicaSet"
    assert [each["kind"] for each in found] == kinds
    again = run("render", "-f", "-", *CLUSTER, "-o", output, stdin=result.stdout)
    assert (result.returncode, again.returncode) == (1, 1)
    assert again.stdout == result.stdout
