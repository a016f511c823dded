"""A journal says the same after writing and reading, and a damaged one is an error, never a wrong path."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from phased import MEMORY

from codegen.errors import Conflict, ExitCode
from codegen.record.fields import checked_path
from codegen.record.journal import Journal, JournalFile

PATHS = st.sampled_from(["a.rs", "a/b.rs", "é ü/日本.rs"])
NUMBERS = st.sets(st.integers(0, 7), max_size=3).map(lambda found: tuple(sorted(found)))
BACKUPS = st.none() | st.integers(1, 999)
FOLDERS = st.sets(PATHS, max_size=2).map(lambda found: tuple(sorted(found)))


@st.composite
def journals(draw: st.DrawFn) -> Journal:
    applied = draw(NUMBERS)
    files = []
    claimed: set[str] = set()
    for index, path in enumerate(draw(st.sets(PATHS))):
        old, new = draw(st.sampled_from([(None, "0" * 64), ("0" * 64, None), ("0" * 64, "f" * 64)]))
        places: list[str] = [f"old/{index}", f"originals/{old}"]
        kept = None if old is None else draw(st.sampled_from([each for each in places if each not in claimed]))
        claimed.add(kept or "")
        files.append(JournalFile(path, old, new, kept))
    recorded = bool(applied) or draw(st.booleans())
    return Journal(tuple(files), draw(FOLDERS), draw(FOLDERS), draw(NUMBERS), applied, recorded, draw(BACKUPS))


JOURNALS = journals()


def read(content: bytes) -> Journal:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        source = Path(folder) / "journal.json"
        source.write_bytes(content)
        return Journal.read(source)


@settings(max_examples=40, deadline=None)
@given(JOURNALS)
def test_what_is_written_is_read_back(journal: Journal) -> None:
    assert read(journal.encode()) == journal


@settings(max_examples=60, deadline=None)
@given(JOURNALS, st.data())
def test_no_damage_is_a_traceback_or_leads_out_of_the_tree(journal: Journal, data: st.DataObject) -> None:
    content = bytearray(journal.encode())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at : at + data.draw(st.integers(0, 4))] = data.draw(
        st.sampled_from([b"", b"..", b"/", b"[", b"-1", b"\xff"])
    )
    with suppress(Conflict):
        damaged = read(bytes(content))
        for path in (*damaged.made, *damaged.dropped, *(file.path for file in damaged.files)):
            assert checked_path(path) == path


@pytest.mark.parametrize("length", [0, 1, 20, 60])
def test_a_truncated_journal_names_itself(length: int) -> None:
    journal = Journal((), ("a",), (), (0,), (0, 1), recorded=True)

    with pytest.raises(Conflict) as caught:
        read(journal.encode()[:length])

    assert caught.value.exit_code == ExitCode.CONFLICT
    assert "journal.json" in str(caught.value)
    assert "corrupt: " in str(caught.value)
