"""Every spec and template of a repository, read by what reads them in earnest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from codegen.errors import InputOutputError, Location, Problem, SpecInvalid, TemplateInvalid
from codegen.kernels.blocks import FILE
from codegen.kernels.loader import FOLDER as KERNELS
from codegen.kernels.loader import load_families
from codegen.kernels.render import family_template, render_family, template_contexts
from codegen.lint.templates import TemplateReader
from codegen.paths import is_checkout, repository_root
from codegen.plan.cuda_kernels import BLOCK, stands_for
from codegen.plan.edits import EditContext
from codegen.release import in_range
from codegen.render.backend import FileContext
from codegen.render.new_file import HEADED
from codegen.report.messages import BACKEND_ERRORS, BUILD_SCRIPT, KINDS, error_variants
from codegen.spec.backend_traits import BACKEND_TRAITS, parse_backend_traits
from codegen.spec.bench import BENCH, parse_drawing
from codegen.spec.folders import is_plain
from codegen.spec.hip_api import HIP_API, parse_hip_api
from codegen.spec.loader import CANDLE_FILE, PHASES_FOLDER, REMEDY, in_order, load_specs, template_names
from codegen.spec.messages import MESSAGES, parse_messages
from codegen.spec.parity import PARITY, parse_parity
from codegen.spec.providers import PROVIDERS, parse_providers
from codegen.verify.acceptance import ACCEPTANCE, parse_acceptance
from codegen.verify.unrun import UNRUN, parse_unrun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from codegen.kernels.loader import LoadedFamily
    from codegen.spec.hip_api import HipApiFile
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.messages import Advice, Advices
    from codegen.spec.model import VersionRange
    from codegen.spec.parity import Parity
    from codegen.spec.providers import Providers
    from codegen.verify.acceptance import Acceptance

T = TypeVar("T")

BLOCKS = f"specs/{FILE}"
CUDA_KERNELS = "tests/releases/cuda_kernels.txt"
"""A line for each CUDA kernel that releases name: its symbol, and which releases. A checkout has it."""
PUBLIC_ITEMS = "tests/releases/public_items.txt"
"""A line for each public item of CUDA's side: its path, and the first and the last release. A checkout has it."""

RENDERED_ALONE: Mapping[str, frozenset[str]] = {
    "docs/acceptance.md.j2": frozenset({"seeds", "counts", "unrun"}),
    "docs/kernels.md.j2": frozenset({"dtypes", "families", "kernels", "rows"}),
    "docs/parity.md.j2": frozenset({"crates", "newest", "releases", "rows", "states"}),
    "docs/providers.md.j2": frozenset({"spec"}),
    "emulator/api.h.j2": frozenset({"api"}),
    "emulator/api.rs.j2": frozenset({"api", "uses"}),
    "rust/kernel_sources.rs.j2": frozenset({"table"}),
    "rust/kernel_table.rs.j2": frozenset({"table"}),
    HEADED: frozenset({"header", "mark", "text"}),
}
"""Templates that neither a phase nor a kernel family names, and the names that each is given."""


@dataclass(frozen=True, slots=True)
class Linted:
    """A repository without findings."""

    specs: LoadedSpecs
    spec_files: tuple[str, ...]
    """Those that were read, below the repository."""
    templates: tuple[str, ...]
    """Those that were parsed, below `templates/`."""


def lint(root: Path | None = None) -> Linted:
    """Reads all specs and templates below `root`. Raises SpecInvalid with everything that is wrong with any of them."""
    root = root or repository_root()
    found: list[Problem] = []
    specs = _collected(found, lambda: load_specs(root))
    families = _collected(found, lambda: load_families(root / "specs")) or ()
    api = _collected(found, lambda: parse_hip_api(_bytes(root, HIP_API)))
    providers = _collected(found, lambda: parse_providers(_bytes(root, PROVIDERS)))
    parity = _collected(found, lambda: parse_parity(_bytes(root, PARITY)))
    _collected(found, lambda: parse_drawing(_bytes(root, BENCH)))
    acceptance = _collected(found, lambda: parse_acceptance(_bytes(root, ACCEPTANCE)))
    _collected(found, lambda: parse_unrun(_bytes(root, UNRUN)))
    advices = _collected(found, lambda: parse_messages(_bytes(root, MESSAGES)))
    _collected(found, lambda: parse_backend_traits(_bytes(root, BACKEND_TRAITS)))
    spec_files, kernel_specs = _spec_files(root)
    found += _strays(root, spec_files)
    if not kernel_specs:
        found.append(Problem(f"specs/{KERNELS} has no family, such as unary.yaml"))
    if api and providers:
        found += _libraries(root, api, providers)
    if advices:
        found += _advised(root, advices)
    if acceptance and is_checkout():  # a wheel has no tests
        found += _proofs(root, acceptance)
    if specs:
        found += _copied(root, specs)
        found += _choices(root, specs, kernel_specs)
        found += _cuda_kernels(root, specs, families)
    if specs and parity:
        found += _parity(root, specs, parity)
    reader = TemplateReader(root / "templates")
    found += _templates(reader, specs, kernel_specs)
    found += _rendered(root, families, {problem.location.file for problem in found if problem.location})
    if found or specs is None:
        raise SpecInvalid(in_order(found), remedy=REMEDY)
    return Linted(specs, spec_files, tuple(sorted(reader.read)))


def _collected(found: list[Problem], read: Callable[[], T]) -> T | None:
    """What `read` returns, or None and its findings among the others."""
    try:
        return read()
    except (SpecInvalid, TemplateInvalid) as error:
        found += error.problems
        return None


def _bytes(root: Path, name: str) -> bytes:
    try:
        return (root / name).read_bytes()
    except FileNotFoundError as error:
        raise SpecInvalid(f"{name} does not exist", remedy=REMEDY) from error
    except OSError as error:
        raise InputOutputError(
            f"cannot read {name}: {error.strerror}", remedy="check the file's permissions"
        ) from error


def _spec_files(root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The specs that are read, and the names of kernel families among them, by their files' names."""
    folders = {name: sorted((root / name).glob("*.yaml")) for name in (PHASES_FOLDER, f"specs/{KERNELS}")}
    inside = [f"{name}/{path.name}" for name, paths in folders.items() for path in paths]
    single = [
        name
        for name in (
            CANDLE_FILE,
            BACKEND_TRAITS,
            HIP_API,
            BLOCKS,
            PROVIDERS,
            PARITY,
            BENCH,
            ACCEPTANCE,
            UNRUN,
            MESSAGES,
        )
        if (root / name).is_file()
    ]
    return (*single, *inside), tuple(path.stem for path in folders[f"specs/{KERNELS}"])


def _strays(root: Path, read: tuple[str, ...]) -> Iterator[Problem]:
    reported = {name for name in template_names(root / PHASES_FOLDER) if name.endswith(".yml") and "/" not in name}
    for name in template_names(root / "specs"):
        path = f"specs/{name}"
        if path not in read and path.removeprefix(f"{PHASES_FOLDER}/") not in reported:
            yield Problem("nothing reads this file", Location(path, 1))


def _libraries(root: Path, api: HipApiFile, providers: Providers) -> Iterator[Problem]:
    known = {library.name for library in api.api.libraries}
    for name, provider in providers.providers.items():
        if provider.library is not None and provider.library not in known:
            message = f"{HIP_API} has no library '{provider.library}'"
            yield Problem(message, _line_with(root, PROVIDERS, f"  {name}:"))


def _advised(root: Path, advices: Advices) -> Iterator[Problem]:
    """Each kind of error has one entry, and each entry one kind."""
    sides = (
        (advices.tool, [kind.title for kind in KINDS.values()]),
        (advices.build, [BUILD_SCRIPT]),
        (advices.backend, error_variants(root) if (root / BACKEND_ERRORS).is_file() else _names(advices.backend)),
    )
    for listed, there in sides:
        names = _names(listed)
        for name in sorted({*there} - {*names}):
            yield Problem(f"there is no entry for the error '{name}'", Location(MESSAGES, 1))
        for name in names:
            if name not in there or names.count(name) > 1:
                wrong = "is there twice" if name in there else "is no kind of error"
                yield Problem(f"'{name}' {wrong}", _line_with(root, MESSAGES, f"    name: {name}"))


def _names(advices: Iterable[Advice]) -> list[str]:
    return [advice.name for advice in advices]


def _proofs(root: Path, acceptance: Acceptance) -> Iterator[Problem]:
    for seed in acceptance.seeds:
        for line in seed.lines:
            for path in line.pytest:
                if not (root / path).is_file():
                    yield Problem(f"there is no file {path}", _line_with(root, ACCEPTANCE, path))


def _copied(root: Path, specs: LoadedSpecs) -> Iterator[Problem]:
    for phase in specs.phases:
        for rule in phase.copies:
            if not (root / rule.source).exists():
                file, _, line = specs.where(rule.id).rpartition(":")
                yield Problem(f"there is nothing to copy at {rule.source}", Location(file, int(line)))


def _choices(root: Path, specs: LoadedSpecs, families: tuple[str, ...]) -> Iterator[Problem]:
    for choice in specs.candle.choices:
        if choice.family is not None and choice.family not in families:
            message = f"there is no family '{choice.family}' in specs/{KERNELS}"
            yield Problem(message, _line_with(root, CANDLE_FILE, f"enum: {choice.enum},"))


def _cuda_kernels(root: Path, specs: LoadedSpecs, families: tuple[LoadedFamily, ...]) -> Iterator[Problem]:
    """Names that no release has, names that stand twice, and operations that do not exist or read no blocks."""
    known = {f"{loaded.name}.{op.name}": loaded.family.blocks for loaded in families for op in loaded.family.ops}
    formats = {form.name for loaded in families if loaded.family.blocks for form in loaded.family.variants}
    record = root / CUDA_KERNELS
    lines = record.read_text(encoding="utf-8").splitlines() if is_checkout() and record.is_file() else None
    named = None if lines is None else [line.split()[0] for line in lines if line and not line.startswith("#")]
    seen: set[str] = set()
    for index, entry in enumerate(specs.candle.cuda_kernels):
        file, _, line = specs.where(f"cuda_kernels[{index}]").rpartition(":")
        place = Location(file, int(line))
        for symbol in entry.symbol:
            if symbol in seen:
                yield Problem(f"{symbol} stands in an entry before this one", place)
            seen.add(symbol)
            if BLOCK in symbol and entry.by and not any(known.get(name, True) for name in entry.by):
                yield Problem(f"no operation of this entry reads blocks, which {symbol} stands for", place)
            if named is not None and families and not any(stands_for(symbol, each, formats) for each in named):
                yield Problem(f"no release that was tried names {symbol} ({CUDA_KERNELS})", place)
        for name in entry.by if families else ():
            if name not in known:
                yield Problem(f"there is no operation {name} in specs/{KERNELS}", place)


def _parity(root: Path, specs: LoadedSpecs, parity: Parity) -> Iterator[Problem]:
    """Answers and numbers about items that no release has, and ranges that are wider than those of their items."""
    record = root / PUBLIC_ITEMS
    if not (is_checkout() and record.is_file()):
        return
    lines = (line.split() for line in record.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    known = {path: (first, last) for path, first, last in lines}
    tried = [release.version for release in specs.candle.releases]
    ranges: list[tuple[str, VersionRange, Location]] = []
    ranges += ((placed.path, placed.answer, placed.place) for placed in parity.answers)
    ranges += ((further.item, further, place) for further, place in parity.further)
    for path, entry, place in ranges:
        if path not in known:
            yield Problem(f"no release that was tried has a public item {path} ({PUBLIC_ITEMS})", place)
        else:
            first, last = known[path]
            asked = [each for each in tried if in_range(each, entry.since, entry.until)]
            if any(not in_range(each, first, last) for each in asked) or not asked:
                yield Problem(f"{path} is in the releases from {first} to {last} only", place)
    for path, place in parity.uses:
        if path not in known:
            yield Problem(f"no release that was tried has a public item {path} ({PUBLIC_ITEMS})", place)


def _line_with(root: Path, name: str, text: str) -> Location:
    content = (root / name).read_text(encoding="utf-8")
    return Location.in_text(name, content, content[: content.find(text)].count("\n") + 1)


def _templates(reader: TemplateReader, specs: LoadedSpecs | None, families: tuple[str, ...]) -> Iterator[Problem]:
    """Findings in all templates; those that nothing reads only where the specs say what is read."""
    contexts = dict(RENDERED_ALONE) | template_contexts(families, reader.root)
    for phase in specs.phases if specs else ():
        for rules, context in ((phase.rules, EditContext), (phase.files, FileContext)):
            sources = {rule.template for rule in rules if rule.template}
            known = frozenset(context.__dataclass_fields__)
            contexts |= {source: known for source in sources if not is_plain(source)}
            for source in sorted(filter(is_plain, sources)):
                yield from reader.plain(source)
    there = {name for name in template_names(reader.root) if not name.endswith(".md")}
    users = {family_template(name): f"specs/{KERNELS}/{name}.yaml" for name in families}
    for template, known in contexts.items():
        if template in there:
            yield from reader.findings(template, known)
        else:
            yield Problem(f"there is no template templates/{template}", Location(users.get(template, "codegen"), 1))
    unused = sorted(there - reader.read)
    yield from (problem for template in unused for problem in reader.syntax(template))
    if specs and not reader.broken:  # else what the broken ones draw in is not known
        yield from (Problem("nothing uses this template", Location(f"templates/{name}", 1)) for name in unused)


def _rendered(root: Path, families: tuple[LoadedFamily, ...], faulty: set[str]) -> Iterator[Problem]:
    """What only rendering shows of a kernel family's template: a field that a spec's entry does not have."""
    for loaded in families:
        template = f"templates/{family_template(loaded.name)}"
        if template not in faulty and (root / template).is_file():
            try:
                render_family(loaded, root / "templates")
            except TemplateInvalid as error:
                yield from (
                    problem for problem in error.problems if problem.location and problem.location.file not in faulty
                )
