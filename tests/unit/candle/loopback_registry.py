"""A crate registry on the loopback interface, and small made-up crates to publish in it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

from codegen.candle.registry import index_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pytest


def crate_archive(name: str, version: str, files: Mapping[str, str], *, executable: Sequence[str] = ()) -> bytes:
    """The bytes of a .crate file."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for path, text in files.items():
            info = tarfile.TarInfo(f"{name}-{version}/{path}")
            info.size = len(text.encode())
            info.mode = 0o755 if path in executable else 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(raw.getvalue(), mtime=0)


class LoopbackRegistry:
    """Serves a sparse index and downloads; answers can be broken on purpose."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.failures: dict[str, list[int]] = {}
        """Statuses that a path answers with before it answers properly."""
        self.requests: Counter[str] = Counter()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests[self.path] += 1
                pending = registry.failures.get(self.path)
                status = pending.pop(0) if pending else 200 if self.path in registry.pages else 404
                body = registry.pages.get(self.path, b"") if status == 200 else b"no"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 64

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.pages["/index/config.json"] = json.dumps({"dl": f"{self.url}/dl"}).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """From now on connections are refused."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def publish(
        self,
        name: str,
        version: str,
        archive: bytes,
        *,
        needs: Sequence[tuple[str, str]] = (),
        yanked: bool = False,
        checksum: str | None = None,
    ) -> None:
        """Add a version to the index; `needs` are (crate, requirement), the first renamed to `candle`."""
        page = f"/index/{index_path(name)}"
        line = {
            "name": name,
            "vers": version,
            "cksum": checksum or hashlib.sha256(archive).hexdigest(),
            "yanked": yanked,
            "deps": [
                {"name": "candle", "package": crate, "req": req}
                if crate == "candle-core"
                else {"name": crate, "req": req}
                for crate, req in needs
            ],
        }
        self.pages[page] = self.pages.get(page, b"") + json.dumps(line).encode() + b"\n"
        self.pages[f"/dl/{name}/{version}/download"] = archive

    def publish_candle(self, version: str) -> None:
        """A release of a very small Candle, with one crate that git has and the registry does not."""
        for name, (files, needs) in small_candle(version).items():
            executable = ["tool.sh"] if name == "candle-nn" else []
            self.publish(name, version, crate_archive(name, version, files, executable=executable), needs=needs)

    def configure(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Point cargo's configuration, and the cache, at this registry and a folder."""
        home = folder / "cargo-home"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[source.crates-io]\nreplace-with = "loop"\n[source.loop]\nregistry = "sparse+{self.url}/index/"\n'
        )
        monkeypatch.setenv("CARGO_HOME", str(home))
        monkeypatch.setenv("CANDLE_ROCM_FETCH_DIR", str(folder / "cache"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("CARGO_HTTP_PROXY", raising=False)
        monkeypatch.delenv("CARGO_HTTP_CAINFO", raising=False)
        monkeypatch.chdir(folder)


def small_candle(version: str) -> dict[str, tuple[dict[str, str], list[tuple[str, str]]]]:
    """Files and index dependencies of each crate."""
    package = f'[package]\nname = "%s"\nversion = "{version}"\nedition = "2021"\n'
    git_package = '[package]\nname = "%s"\nversion.workspace = true\nedition.workspace = true\n'
    core_git = (
        git_package % "candle-core"
        + """
[dependencies]
gemm = { workspace = true }
half = { workspace = true, features = ["zerocopy"] }
candle-kernels = { workspace = true, optional = true }

[target.'cfg(not(target_arch = "wasm32"))'.dependencies]
ug = { workspace = true }

[features]
cuda = ["dep:candle-kernels"]
"""
    )
    core = (
        package % "candle-core"
        + f"""
[dependencies.gemm]
version = "0.17"
features = ["wasm"]
default-features = false
[dependencies.half]
version = "2.5"
features = ["num-traits", "zerocopy"]
[dependencies.candle-kernels]
version = "{version}"
optional = true
[target.'cfg(not(target_arch = "wasm32"))'.dependencies.ug]
version = "0.4"
[features]
cuda = ["dep:candle-kernels"]
"""
    )
    nn_git = git_package % "candle-nn" + "[dependencies]\ncandle = { workspace = true }\nhalf = { workspace = true }\n"
    nn = (
        package % "candle-nn"
        + f'[dependencies.candle]\nversion = "{version}"\npackage = "candle-core"\n'
        + '[dependencies.half]\nversion = "2.5"\nfeatures = ["num-traits"]\n'
    )
    onnx_git = (
        package % "candle-onnx"
        + "[dependencies]\n"
        + f'candle = {{ path = "../candle-core", package = "candle-core", version = "{version}" }}\n'
        + f'candle-lost = {{ path = "../candle-lost", version = "{version}", optional = true }}\n'
        + '[dev-dependencies]\ncandle-gone = { path = "../candle-gone" }\n'
    )
    here = f"^{version}"
    library = {"src/lib.rs": "pub fn nothing() {}\n", "Cargo.lock": "# old\n", ".cargo_vcs_info.json": "{}"}
    return {
        "candle-core": (
            {**library, "Cargo.toml": core, "Cargo.toml.orig": core_git, "tests/one.rs": "\n", "build.rs": "\n"},
            [("candle-kernels", here), ("gemm", "^0.17"), ("candle-hub", "^0.3.3")],
        ),
        "candle-nn": (
            {**library, "Cargo.toml": nn, "Cargo.toml.orig": nn_git, "tool.sh": "#!/bin/sh\n"},
            [("candle-core", here)],
        ),
        "candle-onnx": (
            {**library, "Cargo.toml": package % "candle-onnx", "Cargo.toml.orig": onnx_git},
            [("candle-core", here)],
        ),
        "candle-kernels": (
            {**library, "Cargo.toml": package % "candle-kernels", "Cargo.toml.orig": package % "candle-kernels"},
            [],
        ),
    }
