"""The crate registry over plain HTTPS: a sparse index and the downloads it points to.

Formats: https://doc.rust-lang.org/cargo/reference/registry-index.html
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codegen.candle.cargo_config import USE_A_CHECKOUT, Source, crates_io_source
from codegen.errors import ChecksumMismatch, RegistryUnreachable

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

TIMEOUT_SECONDS = 30
MOST_SECONDS = 600.0
"""For one file, however slowly it comes."""
MOST_OF_INDEX = 16 << 20
"""Bytes; candle-core's file in the index has 40 KiB."""
MOST_OF_CRATE = 64 << 20
"""Bytes; crates.io takes crates of 10 MiB."""
_CHUNK = 1 << 16
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
PAUSES_SECONDS = (0.2, 0.8)
"""Waits before the second and the third attempt."""

_ABSENT = frozenset({404, 410, 451})  # what a sparse index may answer for a crate it does not have
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Requirement:
    """A dependency as the index records it."""

    crate: str
    """The real name, also where the dependency is renamed."""
    requirement: str

    def names_release(self, version: str) -> bool:
        """Whether the requirement was written for exactly this release, as those between Candle's crates are."""
        return self.requirement.lstrip("^=~ ") == version


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One published version of a crate."""

    crate: str
    version: str
    checksum: str
    """SHA-256 of the .crate file in lower-case hexadecimal."""
    yanked: bool
    dependencies: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry that answered; made by `connect`."""

    index: str
    download_template: str
    _opener: OpenerDirector = field(repr=False, compare=False)

    def entries(self, crate: str) -> tuple[IndexEntry, ...]:
        """Every published version of a crate in the order of the index; empty when there is no such crate.

        Raises:
            RegistryUnreachable: no answer, or one that is not an index file.
        """
        url = self.index + index_path(crate)
        content = _get(self._opener, url, most=MOST_OF_INDEX)
        if content is None:
            return ()
        try:
            return tuple(_entry(json.loads(line)) for line in content.splitlines() if line.strip())
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
            raise RegistryUnreachable(
                f"{url} is not a file of a crate index: {cause!r}", remedy=_REMEDY_ANSWER
            ) from cause

    def download(self, entry: IndexEntry) -> bytes:
        """The .crate file of an entry, its checksum verified.

        Raises:
            RegistryUnreachable: no answer, or the registry has no such file.
            ChecksumMismatch: the file is not the one that the index speaks of.
        """
        url = download_url(self.download_template, entry)
        content = _get(self._opener, url, most=MOST_OF_CRATE)
        if content is None:
            raise RegistryUnreachable(f"{url} does not exist, although the index lists it", remedy=_REMEDY_ANSWER)
        found = sha256(content)
        if found != entry.checksum:
            raise ChecksumMismatch(
                f"{entry.crate} {entry.version} from {url}\n"
                f"  expected SHA-256 {entry.checksum}\n  found    SHA-256 {found}",
                remedy="try again; if it stays, something between here and the registry changes what it sends",
            )
        return content


_REMEDY_NETWORK = (
    "check the network, the proxy (HTTPS_PROXY, or `http.proxy` in cargo's configuration) and the certificates "
    f"(SSL_CERT_FILE, CARGO_HTTP_CAINFO); or {USE_A_CHECKOUT}"
)
_REMEDY_ANSWER = f"check the registry that cargo is configured for; or {USE_A_CHECKOUT}"


def connect(source: Source | None = None) -> Registry:
    """The registry that cargo is configured for (or the given source), ready to be asked.

    Raises:
        RegistryUnreachable: it does not answer, wants a login, or is no sparse index.
        UsageError: cargo's configuration is broken.
    """
    source = crates_io_source() if source is None else source
    opener = _opener(source)
    url = f"{source.index}config.json"
    content = _get(opener, url, most=MOST_OF_INDEX)
    try:
        config = json.loads(content or b"null")
        template = str(config["dl"])
    except (ValueError, KeyError, TypeError) as cause:
        raise RegistryUnreachable(f"{url} is not the configuration of a sparse index", remedy=_REMEDY_ANSWER) from cause
    return Registry(source.index, template, opener)


def index_path(crate: str) -> str:
    """Where a sparse index keeps a crate: `ca/nd/candle-core`, `3/f/foo`, `2/ab`, `1/a`."""
    name = crate.lower()
    return f"{_prefix(name)}/{name}"


def download_url(template: str, entry: IndexEntry) -> str:
    """The URL of a .crate file by the `dl` key of a registry's config.json."""
    marked = {
        "{crate}": entry.crate,
        "{version}": entry.version,
        "{prefix}": _prefix(entry.crate),
        "{lowerprefix}": _prefix(entry.crate.lower()),
        "{sha256-checksum}": entry.checksum,
    }
    if not any(marker in template for marker in marked):
        return f"{template}/{entry.crate}/{entry.version}/download"
    for marker, value in marked.items():
        template = template.replace(marker, value)
    return template


def sha256(content: bytes) -> str:
    """SHA-256 in lower-case hexadecimal."""
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _prefix(name: str) -> str:
    if len(name) <= 2:
        return str(len(name))
    return f"3/{name[0]}" if len(name) == 3 else f"{name[:2]}/{name[2:4]}"


def _entry(line: dict[str, Any]) -> IndexEntry:
    dependencies = tuple(
        Requirement(str(each.get("package") or each["name"]), str(each["req"])) for each in line["deps"]
    )
    name, version, checksum = str(line["name"]), str(line["vers"]), str(line["cksum"]).lower()
    if _CHECKSUM.fullmatch(checksum) is None:
        raise ValueError(f"{checksum[:80]!r} is no SHA-256")
    return IndexEntry(name, version, checksum, bool(line["yanked"]), dependencies)


def _opener(source: Source) -> OpenerDirector:
    import ssl
    from urllib.request import (
        HTTPDefaultErrorHandler,
        HTTPErrorProcessor,
        HTTPHandler,
        HTTPRedirectHandler,
        HTTPSHandler,
        OpenerDirector,
        ProxyHandler,
        UnknownHandler,
    )

    context = ssl.create_default_context()  # reads SSL_CERT_FILE and SSL_CERT_DIR
    if source.cainfo is not None:
        try:
            context.load_verify_locations(source.cainfo)
        except (OSError, ssl.SSLError) as cause:
            raise RegistryUnreachable(
                f"the certificates {source.cainfo} cannot be read: {cause}",
                remedy="correct CARGO_HTTP_CAINFO or `http.cainfo` in cargo's configuration",
            ) from cause
    proxies = None if source.proxy is None else {"http": source.proxy, "https": source.proxy}
    # Not build_opener, which knows file:, ftp: and data: too: an index says where crates are.
    opener = OpenerDirector()
    for kind in (UnknownHandler, HTTPHandler, HTTPDefaultErrorHandler, HTTPRedirectHandler, HTTPErrorProcessor):
        opener.add_handler(kind())
    opener.add_handler(HTTPSHandler(context=context))
    opener.add_handler(ProxyHandler(proxies))
    opener.addheaders = [("User-Agent", "candle-rocm")]  # crates.io refuses requests without one
    return opener


def _body(response: HTTPResponse, url: str, most: int) -> bytes:
    """What a server sends, which may be without end in size or in time."""
    from http.client import IncompleteRead

    chunks, size, deadline = [], 0, time.monotonic() + MOST_SECONDS
    while chunk := response.read1(_CHUNK):  # what has come; `read` waits until all of it has
        size += len(chunk)
        if size > most:
            raise RegistryUnreachable(f"{url} sends more than {most >> 20} MiB", remedy=_REMEDY_ANSWER)
        if time.monotonic() > deadline:
            raise RegistryUnreachable(f"{url} took more than {MOST_SECONDS:.0f} seconds", remedy=_REMEDY_NETWORK)
        chunks.append(chunk)
    body, announced = b"".join(chunks), response.headers.get("Content-Length", "")
    if announced.isdecimal() and size < int(announced):
        raise IncompleteRead(body, int(announced) - size)
    return body


def _get(opener: OpenerDirector, url: str, *, most: int) -> bytes | None:
    """The body at a URL, of at most so many bytes, or None when the server says that there is nothing."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError

    reason = ""
    for pause in (0.0, *PAUSES_SECONDS):
        time.sleep(pause)
        try:
            with opener.open(url, timeout=TIMEOUT_SECONDS) as response:
                return _body(response, url, most)
        except HTTPError as cause:
            cause.close()
            if cause.code in _ABSENT:
                return None
            if cause.code in (401, 403, 407):
                raise RegistryUnreachable(
                    f"{url} answers {cause.code} {cause.reason}: it wants a login, "
                    "and candle-rocm reads no credentials",
                    remedy=USE_A_CHECKOUT,
                ) from cause
            reason = f"{cause.code} {cause.reason}"
            if cause.code not in _TRANSIENT:
                break
        except URLError as cause:
            reason = str(cause.reason)
            if "unknown url type" in reason:
                break
            if "CERTIFICATE_VERIFY_FAILED" in reason:
                break
        except (OSError, HTTPException) as cause:  # cut off while the body was read
            reason = str(cause) or type(cause).__name__
        except ValueError as cause:  # a URL that urllib cannot parse
            reason = str(cause)
            break
    raise RegistryUnreachable(f"{url}: {reason}", remedy=_REMEDY_NETWORK)
