"""The IAM policies of the documents allow what the destinations call, and nothing else."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from fenced import ROOT, blocks_of

from penstock import destinations
from penstock.destinations.aws import ACTIONS

SOURCES = Path(destinations.__file__).parent
# Which files speak to which service, and the page that has its policy.
PAGES = {
    "kinesis": (["kinesis.py"], "kinesis.md"),
    "iotanalytics": (["iot_analytics.py"], "iot-analytics.md"),
    "iotsitewise": (["sitewise.py"], "sitewise.md"),
    "s3": (["s3.py", "s3_upload.py"], "s3.md"),
}
# IAM's names for operations that it does not call by their own, besides those in ACTIONS.
OTHER_NAMES = {
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
}


def called_operations(files: list[str]) -> set[str]:
    """The texts that are first arguments of `call`, `exchange`, or of what passes them on."""
    found = set()
    for name in files:
        for node in ast.walk(ast.parse((SOURCES / name).read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            texts = [
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ]
            if node.func.attr in ("call", "exchange", "_send"):
                found.update(texts)
    return {"".join(word.title() for word in operation.split("_")) for operation in found}


def allowed_actions(page: str) -> set[str]:
    (policy,) = (
        json.loads(block.text)
        for block in blocks_of(f"docs/destinations/{page}")
        if block.language == "json"
    )
    actions: set[str] = set()
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        action = statement["Action"]
        actions.update([action] if isinstance(action, str) else action)
    return actions


@pytest.mark.parametrize("service", PAGES)
def test_a_policy_has_exactly_the_actions_that_are_called(service: str) -> None:
    files, page = PAGES[service]

    called = {ACTIONS.get(name, OTHER_NAMES.get(name, name)) for name in called_operations(files)}

    assert called, "the calls are written in another way: adapt this test"
    assert allowed_actions(page) == {f"{service}:{action}" for action in called}


def test_every_file_that_speaks_to_aws_has_a_policy() -> None:
    users = {path.name for path in SOURCES.glob("*.py") if "Service(" in path.read_text()}
    assert users == {"kinesis.py", "iot_analytics.py", "sitewise.py", "s3.py"}
    assert users <= {name for files, _ in PAGES.values() for name in files}


def test_every_policy_is_on_a_page_of_its_own() -> None:
    found = {path.name for path in (ROOT / "docs/destinations").glob("*.md")}
    assert {page for _, page in PAGES.values()} <= found
