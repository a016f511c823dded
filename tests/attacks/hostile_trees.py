"""Trees whose manifests, settings, sources or names were made to do harm: to the terminal, the clock, the memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from arena import CORE, LIB
from made_up import candle_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from arena import Arena

# Manifests

WORKSPACE_VALUES = (
    *("5", "true", "1.5", '"x"', "[]", "{}", "[1]", "[[]]", "[{}]", '["x", 5]', "{ a = 1 }", "1979-05-27"),
    *('["lnk/*"]', '["*/*"]', '["lnk/**"]', '["*/../../outside/*"]', '["/etc/*"]', '["/"]', '["../outside"]'),
    *('["**a"]', '["a**/b"]', '["**/**"]', '["[!a-"]', '["[z-a]*"]', '["*\\u0000*"]', '["\\u0000"]', '["~/*"]'),
    *('["candle-core/../../outside"]', '["lnk"]', '["."]', '[""]', '["candle-core", "candle-core"]'),
)
TABLES = (
    *("package", "features", "dependencies", "dev-dependencies", "target", "workspace", "example", "bench", "lib"),
    *("lints", "patch", "profile", "build-dependencies", "test", "bin"),
)
PACKAGE_VALUES = (
    *('"0.11.1-{{7*7}}"', f'"{"9" * 5000}.1.1"', f'"0.11.1-{"9" * 5000}"', '"0.11.1\\n*/ {% x %}"', '"٣.1.1"', "7"),
    *('"../../outside"', '"\\u001b]0;x\\u0007"', '"<script>alert(1)</script>"', '"%0a::error::x"', '"0.11.1-..-"'),
    *('"0.12.0"', '"2021 --config-path=x"', '"2015"', '"--help"', "{ workspace = 5 }", "[]", '""'),
)
TAILS = (
    "\n[x]\n" + ".".join("a" * 300) + " = 1\n",
    "\n[x]\n" + ".".join(['"a"'] * 300) + " = 1\n",
    "\n[" + " . ".join("a" * 300) + "]\n",
    "\n[x]\ny = " + "[" * 3000 + "]" * 3000 + "\n",
    "\n[x]\ny = " + "{a=" * 3000 + "1" + "}" * 3000 + "\n",
    "\n[x]\ny = " + "9" * 6000 + "\n",
    "\n[x]\ny = 9999-99-99\n",
    "\n[x]\ny = '''" + "x" * 5000,
    "\ny = " + "\x1b" * 5000,
    "\n\0\n",
    "\ufeff",
    "\r" * 50,
    "\n[workspace]\n",
)


def hostile_manifest(dice: Random, arena: Arena) -> None:
    """A value of a manifest is of another kind, or leads elsewhere."""
    path = dice.choice((arena.tree / "Cargo.toml", arena.tree / CORE / "Cargo.toml"))
    if dice.random() < 0.5:
        (arena.tree / "lnk").symlink_to(dice.choice((arena.outside, arena.outside / "new", arena.tree / CORE)))
    text = path.read_text()
    match dice.randrange(4):
        case 0:
            lines = [line for line in text.splitlines() if not line.startswith(("exclude", "members"))]
            at = lines.index("[workspace]") + 1 if "[workspace]" in lines else 0
            lines.insert(at, f"{dice.choice(('members', 'exclude', 'package', 'dependencies'))} = {_value(dice)}")
            path.write_text("\n".join(lines) + "\n")
        case 1:
            path.write_text(f"{dice.choice(TABLES)} = {_value(dice)}\n{text}")
        case 2:
            key = dice.choice(("version", "edition", "name"))
            lines = [line for line in text.splitlines() if not line.startswith(key)]
            at = next((n for n, line in enumerate(lines) if line.endswith("package]")), 0) + 1
            lines.insert(at, f"{key} = {dice.choice(PACKAGE_VALUES)}")
            path.write_text("\n".join(lines) + "\n")
        case _:
            path.write_bytes((text + dice.choice(TAILS)).encode())


def _value(dice: Random) -> str:
    return dice.choice(WORKSPACE_VALUES)


SETTINGS = (
    'required_version = "9"\nignore = ["/"]\nlicense_template_path = "../outside/id_rsa"\nunstable_features = true\n',
    "max_width = 100000000\ntab_spaces = 100000000\n",
    "max_width = -1\ntab_spaces = 0\n",
    "[" * 5000,
    "\0",
    'newline_style = "Windows"\ndisable_all_formatting = true\nhard_tabs = true\n',
    "tab_spaces = []\nedition = 5\n",
)
CONFIGURATIONS = (
    "env = 5\n",
    "env = []\nbuild = 5\n",
    "[env]\nSKIP_BINDGEN = { value = [1] }\n",
    "env = { A = 1 }\n",
    '[build]\nrustc-wrapper = "../evil"\n[target.x]\nrunner = "evil"\n',
    "[" * 5000,
)


def hostile_settings(dice: Random, arena: Arena) -> None:
    """The tree's settings of rustfmt or of cargo ask for too much, or are no settings."""
    name = dice.choice(("rustfmt.toml", ".rustfmt.toml", ".cargo/config.toml", "rust-toolchain.toml"))
    path = arena.tree / name
    path.parent.mkdir(exist_ok=True)
    match dice.randrange(5):
        case 0:
            path.symlink_to(dice.choice((arena.outside / "id_rsa", arena.outside, path)))
        case 1:
            os.mkfifo(path)
        case 2:
            path.mkdir()
        case _:
            path.write_text(dice.choice(CONFIGURATIONS if "config" in name else SETTINGS))


# Sources

PIECES = (
    *(
        "cuda ",
        "cuda();",
        "Device::Cuda(x)=>1,",
        "if d.is_cuda() {a()}\n",
        "else if d.is_cuda() {a()}\n",
        "use a::cuda::b;",
    ),
    *("match d {Device::Cuda(_)=>1,", '#[cfg(feature="cuda")]\n', "#[cfg(all(", "/*", "*/", "//cuda\n", "/// cuda\n"),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "-",
        "&",
        "m!(",
        'r#"cuda',
        '"#',
        'r"',
        '"',
        "'",
        "b'",
        "é",
        "\u202e",
        "\x1b[2J",
    ),
    *(
        "\0",
        "\r",
        "\r\n",
        "\n",
        "\ufeff",
        "#!/bin/sh",
        "impl CudaStorage {",
        "enum Device {",
        "Cuda(X),",
        "|x|",
        "a::",
        ".a()",
    ),
    *(
        '#[path = "../../../outside/id_rsa"] mod b;',
        'include!("../../../outside/id_rsa");',
        "mod x;",
        "mod r#y;",
        "mod z {",
    ),
    *(
        "«7*7»",
        "{{7*7}}",
        "{% x %}",
        "<script>alert(1)</script>",
        "::error::x",
        "%0A",
        "macro_rules! m {",
        "let Device::Cuda(x)=",
    ),
)
PYTHON = (
    *(
        "cuda()\n",
        "x = 'cuda'\n",
        "'''cuda'''\n",
        "# cuda\n",
        "if cuda:\n",
        "  ",
        "\t",
        "[",
        "]",
        "(",
        ")",
        "-",
        "cuda+",
        "\x0c",
    ),
    *(
        "x=f'{cuda}'\n",
        "def cuda():\n",
        "@cuda\n",
        "\\\n",
        "'''",
        "\r",
        "é",
        "\u2028",
        "cuda,",
        ";",
        "lambda:",
        "a if b else ",
    ),
)
COOKIES = (
    "latin-1",
    "utf-7",
    "rot13",
    "unicode_escape",
    "raw_unicode_escape",
    "utf-16",
    "idna",
    "punycode",
    "x",
    "cp037",
)


def _soup(dice: Random, pieces: tuple[str, ...]) -> str:
    """Some pieces, each many times."""
    chosen = [dice.choice(pieces) * dice.choice((1, 1, 2, 7, 60, 800)) for _ in range(dice.randrange(1, 12))]
    return "".join(chosen)


def hostile_source(dice: Random, arena: Arena) -> None:
    """A Rust file is a soup of what is hard to read, whole or behind what was there."""
    path = arena.tree / dice.choice((LIB, f"{CORE}/src/device.rs", f"{CORE}/src/evil.rs", f"{CORE}/build.rs"))
    before = path.read_bytes() if path.exists() and dice.random() < 0.6 else b""
    text = _soup(dice, PIECES).encode()
    if dice.random() < 0.1:
        text = text.replace(b"cuda", b"cuda\xff", 1)
    path.write_bytes(before + text if dice.random() < 0.5 else text + before)


def hostile_python(dice: Random, arena: Arena) -> None:
    """A Python file of a crate that is a Python package, with an encoding that Python would believe."""
    (arena.tree / CORE / "pyproject.toml").write_text("")
    cookie = f"# -*- coding: {dice.choice(COOKIES)} -*-\n" if dice.random() < 0.5 else ""
    text = (cookie + _soup(dice, PYTHON)).encode()
    if dice.random() < 0.2:
        text = dice.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"")) + text.replace(b"\xc3\xa9", b"\xe9")
    (arena.tree / CORE / dice.choice(("evil.py", "evil.pyi"))).write_bytes(text)


def hostile_candle(dice: Random, arena: Arena) -> None:
    """A tree that the specs plan in full, with a soup somewhere in one of its files, or other line ends in all."""
    candle_tree(arena.tree)
    files = sorted(arena.tree.rglob("*.rs"))
    if dice.random() < 0.3:
        ends = dice.choice((b"\r\n", b"\r", b"\x0c\n", "\u2028\n".encode(), b"\0\n"))
        for path in files:
            path.write_bytes(path.read_bytes().replace(b"\n", ends))
        return
    path = dice.choice(files)
    lines = path.read_text().splitlines(keepends=True)
    lines.insert(dice.randrange(len(lines) + 1), _soup(dice, PIECES))
    path.write_text("".join(lines))


# Names, links and what is no file

NAMES = (
    *(b"\xff\xfe.rs", b"a\nb.rs", b"\x1b[2J.rs", b"<img src=x onerror=alert(1)>.rs", b"`[x](javascript:1)`|%0a.rs"),
    *(
        "\u202e.rs".encode(),
        b"a,b:c=d.rs",
        b"{{7*7}}.rs",
        b"-rf.rs",
        b" .rs",
        b"DEVICE.rs",
        b"x" * 250 + b".rs",
        b"a\\b.rs",
    ),
)


def hostile_names(dice: Random, arena: Arena) -> None:
    """Files and folders with names that are no text, that mean something elsewhere, or that are others' too."""
    folder = os.fsencode(arena.tree / CORE / "src")
    name = dice.choice(NAMES)
    if dice.random() < 0.3:
        os.mkdir(os.path.join(folder, name))  # noqa: PTH102, PTH118 - names of bytes
        name = os.path.join(name, b"a.rs")  # noqa: PTH118
    with open(os.path.join(folder, name), "wb") as file:  # noqa: PTH118, PTH123
        file.write(dice.choice((b"", b"fn cuda() {}\n", b"pub enum Device { Cuda }\n")))


def hostile_links(dice: Random, arena: Arena) -> None:
    """A folder, a source or a manifest is a link or no plain file, or the tree leads into itself."""
    core = arena.tree / CORE
    path = dice.choice(
        (core / "src", core, core / "Cargo.toml", arena.tree / "Cargo.toml", core / "src/more", core / "x.rs")
    )
    _away(path)
    targets = (arena.outside, arena.outside / "id_rsa", arena.outside / "deep/er", arena.tree, core, path)
    match dice.randrange(4):
        case 0:
            os.mkfifo(path)
        case 1:
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case _:
            path.symlink_to(dice.choice(targets))


def _away(path: Path) -> None:
    if path.is_dir():
        path.rename(path.with_name("moved"))
    else:
        path.unlink(missing_ok=True)


def unreadable(dice: Random, arena: Arena) -> None:
    """Some files and folders may not be read or written."""
    paths = sorted(path for path in arena.tree.rglob("*"))
    for path in dice.sample(paths, 2):
        path.chmod(dice.choice((0o000, 0o444, 0o555, 0o200)) | (0o700 if path.is_dir() else 0))


# Repositories


def hostile_git(dice: Random, arena: Arena) -> None:
    """A `.git` that is none, leads elsewhere, or names programs."""
    git = arena.tree / ".git"
    if dice.random() < 0.3:
        git.write_bytes(
            dice.choice(
                (b"gitdir: ../outside", b"gitdir: .git", b"gitdir: \0", b"x" * 100_000, b"gitdir: " + b"a/" * 9000)
            )
        )
        return
    for folder in ("objects/info", "refs/heads", "info", "hooks"):
        (git / folder).mkdir(parents=True)
    (git / "HEAD").write_text(
        dice.choice(("ref: refs/heads/main\n", "ref: ../../outside/id_rsa\n", "\n", "0" * 40 + "\n"))
    )
    evil = f"touch {arena.outside}/x"
    (git / "config").write_text(
        dice.choice(
            (
                f'[core]\n\tfsmonitor = "{evil}"\n\thooksPath = hooks\n[filter "x"]\n\tclean = "{evil}"\n',
                f"[core]\n\tworktree = {arena.outside}\n\texcludesFile = {arena.outside}/id_rsa\n",
                f"[include]\n\tpath = {arena.outside}/id_rsa\n",
                f'[diff]\n\texternal = "{evil}"\n[alias]\n\tstatus = "!{evil}"\n',
                "[core]\n\trepositoryFormatVersion = 99\n[extensions]\n\tobjectFormat = x\n",
                "[" * 9000,
            )
        )
    )
    for name, content in (
        ("commondir", str(arena.outside)),
        ("objects/info/alternates", f"{arena.outside}\n"),
        ("index", "DIRC" + "\0" * 400),
        ("packed-refs", "x" * 10_000),
        ("info/attributes", "* filter=x diff=x\n"),
        ("hooks/post-checkout", f"#!/bin/sh\n{evil}\n"),
        ("shallow", "0" * 40 + "\n"),
    ):
        if dice.random() < 0.4:
            (git / name).write_text(content)
            (git / name).chmod(0o755)
    (arena.tree / ".gitattributes").write_text("* filter=x\n")


ATTACKS: tuple[Callable[[Random, Arena], None], ...] = (
    *(hostile_manifest, hostile_manifest, hostile_settings, hostile_source, hostile_source, hostile_python),
    *(hostile_candle, hostile_names, hostile_links, unreadable, hostile_git),
)
