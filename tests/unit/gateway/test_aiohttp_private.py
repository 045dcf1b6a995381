"""Private names of aiohttp: all that are used are listed, and a missing one is reported before anything runs."""

import ast
import re
from pathlib import Path

import pytest
from aiohttp import web, web_protocol

import gateway
from gateway.http.aiohttp_private import NAMES, check_names

ROOM = Path(gateway.__file__).parent
LISTED = {name for _, names in NAMES for name in names}


def test_a_missing_name_is_reported_with_what_to_do() -> None:
    """The sentence names the owner, the name, the version that is installed, and the file with the next steps."""
    with pytest.raises(ImportError) as caught:
        check_names(((web.RequestHandler, ("_messages", "_gone")), (web_protocol, ("_lost",))))
    sentence = str(caught.value)
    assert re.match(r"aiohttp \d+\.\d+\.\d+ has no RequestHandler\._gone, aiohttp\.web_protocol\._lost, ", sentence)
    assert "pyproject.toml" in sentence
    assert "gateway/http/aiohttp_private.py" in sentence


def test_the_connection_uses_no_private_name_that_is_not_listed() -> None:
    """Whatever `Connection` reads or sets on itself is its own, public, or in the list; and the list has no more."""
    tree = ast.parse((ROOM / "connection.py").read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    }
    assert used - own <= LISTED
    assert {name for owner, names in NAMES if owner is web.RequestHandler for name in names} <= used


def test_no_other_module_imports_a_private_name_of_aiohttp() -> None:
    """The list is the only module of the gateway that goes behind aiohttp's public names."""
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiohttp"):
                assert not [one.name for one in node.names if one.name.startswith("_")], path
