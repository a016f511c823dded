from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from loopback_registry import LoopbackRegistry

from codegen.candle import registry as registry_module
from codegen.candle.cargo_config import Source
from codegen.candle.registry import IndexEntry, Registry, Requirement, connect, download_url, index_path
from codegen.errors import ChecksumMismatch, ExitCode, RegistryUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackRegistry]:
    monkeypatch.setattr(registry_module, "PAUSES_SECONDS", (0.0, 0.0))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with LoopbackRegistry() as running:
        yield running


def connected(server: LoopbackRegistry) -> Registry:
    return connect(Source(f"{server.url}/index/"))


@pytest.mark.parametrize(
    ("crate", "path"),
    [("a", "1/a"), ("ab", "2/ab"), ("Foo", "3/f/foo"), ("candle-core", "ca/nd/candle-core"), ("CANdy", "ca/nd/candy")],
)
def test_index_path(crate: str, path: str) -> None:
    assert index_path(crate) == path


def test_download_url_plain_and_with_markers() -> None:
    entry = IndexEntry("Candle-X", "0.9.1", "abc", yanked=False, dependencies=())
    assert download_url("https://h/dl", entry) == "https://h/dl/Candle-X/0.9.1/download"
    template = "https://h/{prefix}/{lowerprefix}/{crate}-{version}-{sha256-checksum}.crate"
    assert download_url(template, entry) == "https://h/Ca/nd/ca/nd/Candle-X-0.9.1-abc.crate"


def test_requirement_of_this_release() -> None:
    assert Requirement("candle-nn", "^0.9.2-alpha.1").names_release("0.9.2-alpha.1")
    assert Requirement("candle-nn", "=0.9.2").names_release("0.9.2")
    assert not Requirement("candle-hub", "^0.3.3").names_release("0.9.2")


def test_entries_give_renamed_dependencies_their_real_name(server: LoopbackRegistry) -> None:
    server.publish("candle-nn", "0.9.1", b"", needs=[("candle-core", "^0.9.1")], yanked=True, checksum="AB" * 32)
    entry = IndexEntry(
        "candle-nn", "0.9.1", "ab" * 32, yanked=True, dependencies=(Requirement("candle-core", "^0.9.1"),)
    )
    assert connected(server).entries("candle-nn") == (entry,)
    assert connected(server).entries("candle-unheard-of") == ()


def test_transient_failures_are_tried_again(server: LoopbackRegistry) -> None:
    server.failures["/index/config.json"] = [503, 429]
    connected(server)
    assert server.requests["/index/config.json"] == 3


def test_three_failures_are_enough(server: LoopbackRegistry) -> None:
    server.failures["/index/config.json"] = [503] * 9
    with pytest.raises(RegistryUnreachable, match=r"/index/config\.json: 503 Service Unavailable"):
        connected(server)
    assert server.requests["/index/config.json"] == 3


def test_permanent_failure_is_not_tried_again(server: LoopbackRegistry) -> None:
    server.failures["/index/config.json"] = [400] * 9
    with pytest.raises(RegistryUnreachable, match="400 Bad Request"):
        connected(server)
    assert server.requests["/index/config.json"] == 1


def test_nobody_listens(server: LoopbackRegistry) -> None:
    server.stop()
    with pytest.raises(RegistryUnreachable) as caught:
        connected(server)
    assert str(caught.value).startswith(f"crate registry unreachable: {server.url}/index/config.json: [Errno ")
    assert str(caught.value).endswith(
        "  = help: check the network, the proxy (HTTPS_PROXY, or `http.proxy` in cargo's configuration) and the "
        "certificates (SSL_CERT_FILE, CARGO_HTTP_CAINFO); or clone Candle's git repository at the release wanted and "
        "give its folder instead of the version"
    )
    assert caught.value.exit_code == ExitCode.IO


def test_url_that_is_none() -> None:
    with pytest.raises(RegistryUnreachable, match=r"http://\[::/config\.json"):
        connect(Source("http://[::/"))


def test_login_is_wanted(server: LoopbackRegistry) -> None:
    server.failures["/index/config.json"] = [401]
    with pytest.raises(RegistryUnreachable, match="it wants a login, and candle-rocm reads no credentials"):
        connected(server)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"{}"])
def test_something_else_than_an_index(server: LoopbackRegistry, content: bytes) -> None:
    server.pages["/index/config.json"] = content
    with pytest.raises(RegistryUnreachable, match="is not the configuration of a sparse index"):
        connected(server)


@pytest.mark.parametrize("line", [b"<html>", b"{}", b"[1]"])
def test_index_file_of_another_kind(server: LoopbackRegistry, line: bytes) -> None:
    server.pages["/index/ca/nd/candle-core"] = line
    with pytest.raises(RegistryUnreachable, match="is not a file of a crate index"):
        connected(server).entries("candle-core")


def test_download_is_verified(server: LoopbackRegistry) -> None:
    server.publish("candle-core", "0.9.1", b"sent", checksum="0" * 64)
    registry = connected(server)
    with pytest.raises(ChecksumMismatch) as caught:
        registry.download(registry.entries("candle-core")[0])
    assert str(caught.value) == (
        f"checksum mismatch: candle-core 0.9.1 from {server.url}/dl/candle-core/0.9.1/download\n"
        f"  expected SHA-256 {'0' * 64}\n"
        f"  found    SHA-256 {hashlib.sha256(b'sent').hexdigest()}\n"
        "  = help: try again; if it stays, something between here and the registry changes what it sends"
    )
    assert caught.value.exit_code == ExitCode.IO


def test_download_that_is_gone(server: LoopbackRegistry) -> None:
    server.publish("candle-core", "0.9.1", b"sent")
    del server.pages["/dl/candle-core/0.9.1/download"]
    registry = connected(server)
    with pytest.raises(RegistryUnreachable, match="does not exist, although the index lists it"):
        registry.download(registry.entries("candle-core")[0])


def test_proxy_is_used(server: LoopbackRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY")
    server.pages["http://registry.invalid/index/config.json"] = b'{"dl": "http://registry.invalid/dl"}'
    found = connect(Source("http://registry.invalid/index/", proxy=server.url))
    assert found.download_template == "http://registry.invalid/dl"


def test_certificates_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(RegistryUnreachable) as caught:
        connect(Source("https://registry.invalid/", cainfo=str(tmp_path / "none.pem")))
    assert "none.pem cannot be read" in str(caught.value)
    assert "correct CARGO_HTTP_CAINFO or `http.cainfo` in cargo's configuration" in str(caught.value)


def test_an_answer_without_end(server: LoopbackRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = connected(server)
    monkeypatch.setattr(registry_module, "MOST_OF_INDEX", 1 << 20)
    server.pages["/index/ca/nd/candle-nn"] = b"x" * (1 << 20)
    with pytest.raises(RegistryUnreachable, match="is not a file of a crate index"):
        registry.entries("candle-nn")
    server.pages["/index/ca/nd/candle-nn"] = b"x" * (2 << 20)
    with pytest.raises(RegistryUnreachable, match="/index/ca/nd/candle-nn sends more than 1 MiB"):
        registry.entries("candle-nn")
    assert server.requests["/index/ca/nd/candle-nn"] == 2


def test_an_answer_that_takes_for_ever(server: LoopbackRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = connected(server)
    monkeypatch.setattr(registry_module, "MOST_SECONDS", -1.0)
    server.pages["/index/ca/nd/candle-nn"] = b"{}"
    with pytest.raises(RegistryUnreachable, match="took more than"):
        registry.entries("candle-nn")


@pytest.mark.parametrize("scheme", ["file", "ftp", "data"])
def test_an_index_that_leads_to_files_of_this_machine(server: LoopbackRegistry, scheme: str, tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_bytes(b"secret")
    server.pages["/index/config.json"] = f'{{"dl": "{scheme}://{secret}?{{crate}}"}}'.encode()
    server.publish("candle-core", "0.9.1", b"secret")
    registry = connected(server)
    with pytest.raises(RegistryUnreachable, match="unknown url type"):
        registry.download(registry.entries("candle-core")[0])


@pytest.mark.parametrize(
    "line",
    [
        b'{"name": "a", "vers": "1.0.0", "cksum": 5, "yanked": false, "deps": []}',
        b'{"name": "a", "vers": "1.0.0", "cksum": "../../x", "yanked": false, "deps": []}',
        b'{"name": "a", "vers": "1.0.0", "cksum": "%s", "yanked": false, "deps": [5]}' % (b"0" * 64),
        b'{"name": "a", "vers": "1.0.0", "cksum": "%s", "yanked": false, "deps": ["x"]}' % (b"0" * 64),
        b"[" * 100_000,
    ],
)
def test_values_of_another_kind_in_an_index(server: LoopbackRegistry, line: bytes) -> None:
    server.pages["/index/ca/nd/candle-core"] = line
    with pytest.raises(RegistryUnreachable, match="is not a file of a crate index"):
        connected(server).entries("candle-core")
