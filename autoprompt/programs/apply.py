"""Put a candidate of a run into the program's source: all of its texts, or none."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoprompt.brief import brief
from autoprompt.errors import Place, Problem, StoreError, command
from autoprompt.programs.export import read_view
from autoprompt.programs.literals import LiteralError, lines_of
from autoprompt.programs.placing import Placed
from autoprompt.programs.source import SourceFile, Sources, SourceText, Spot, source_texts, with_new_text
from autoprompt.records import Candidate
from autoprompt.runs import RunFolder
from autoprompt.text.files import file_sha256, write_bytes
from autoprompt.text.names import counted


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A text that cannot be written into the source.

    Attributes:
        name: Of the component.
        text: The candidate's.
        place: Of the call that sends it; without a file if that is not known.
        why: What stands against it.
    """

    name: str
    text: str
    place: Place
    why: str

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        file = None if self.place.file is None else str(self.place.file)
        return {
            "component": self.name,
            "file": file,
            "line": self.place.line,
            "why": self.why,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Applied:
    """A candidate's texts in the program's source.

    Attributes:
        diff: Unified diff of all files, with paths relative to the working directory.
        files: Those that differ.
        unplaced: Texts that no literal and no file of prompts holds, or two do. Then nothing is written.
        is_written: Whether the files were written.
        warnings: What has to be known beside the diff, such as demonstrations, which no source holds.
    """

    diff: str
    files: tuple[Path, ...]
    unplaced: tuple[Unplaced, ...]
    is_written: bool
    warnings: tuple[Problem, ...]

    __repr__ = brief

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "diff": self.diff,
            "files": [str(path) for path in self.files],
            "unplaced": [text.to_dict() for text in self.unplaced],
            "is_written": self.is_written,
            "warnings": [warning.to_dict() for warning in self.warnings],
        }


def apply_candidate(run_dir: Path, candidate: Candidate, *, write: bool) -> Applied:
    """Find the texts of a candidate in the source, and write them there if all have a place.

    Args:
        run_dir: Folder of the run, which knows the texts and the files.
        candidate: With the texts to write.
        write: Whether to write; else the source stays.

    Raises:
        StoreError: The run has optimized no program, a file of the source is not there, or one changes while
            it is written.
    """
    view = read_view(run_dir)
    moved = _found_files(view["sources"], run_dir)
    placed = [Placed(**record) for record in view["placed"]]
    source = _Source(Sources(moved), moved, view["held_by"], {one.name: one for one in placed})
    texts = source_texts(view["prompts"], placed)
    spots, unplaced = _spots(texts, candidate.components, source)
    changed: dict[Path, tuple[SourceFile, str]] = {}
    for text, spot in spots:
        file, current = changed.get(spot.file.path, (spot.file, spot.file.text))
        try:
            new = with_new_text(spot, candidate.components[text.name], current)
        except LiteralError as error:
            place = Place(spot.file.path, spot.line)
            unplaced.append(Unplaced(text.name, candidate.components[text.name], place, str(error)))
            continue
        changed[spot.file.path] = (file, new)
    written = {path: file.changed(text) for path, (file, text) in changed.items()}
    diff = "".join(_diff(file, text) for file, text in changed.values())
    warnings = [
        *_demo_warnings(candidate, RunFolder(run_dir)),
        *_changed_warnings(view["sources"], moved, changed),
    ]
    if write and not unplaced:
        _write({path: (changed[path][0].data, data) for path, data in written.items()})
    is_written = write and not unplaced and bool(written)
    return Applied(diff, tuple(written), tuple(unplaced), is_written, tuple(warnings))


@dataclass(frozen=True, slots=True)
class _Source:
    """A program's source by now. moved: its files, with the path that each had in the run. held_by: of each
    text the files that held it then. placed: the texts that were found in requests, by name.
    """

    sources: Sources
    moved: Mapping[Path, str]
    held_by: Mapping[str, Sequence[str]]
    placed: Mapping[str, Placed]

    def find(self, text: SourceText) -> list[Spot]:
        """Return where a text is: in the files that held it in the run, if each of them still does.

        Another file that holds it is another text's place by chance.
        """
        spots = self._spots_of(text)
        return [] if self._lost(text, spots) else spots

    def why_missing(self, text: SourceText) -> str:
        """Return why a text that is nowhere cannot be written."""
        if lost := self._lost(text, self._spots_of(text)):
            return f"the original text was in {', '.join(lost)} in the run, and is not there any more"
        return "no string literal and no file of prompts holds the original text"

    def _spots_of(self, text: SourceText) -> list[Spot]:
        within = [path for path, was in self.moved.items() if was in self.held_by[text.name]]
        return self.sources.find(replace(text, sent_from=""), within)

    def _lost(self, text: SourceText, spots: Sequence[Spot]) -> list[str]:
        """Return the files that held a text in the run, and do not any more."""
        holding = {self.moved[spot.file.path] for spot in spots}
        here = {was: str(path) for path, was in self.moved.items()}
        return [here.get(was, was) for was in self.held_by[text.name] if was not in holding]

    def place_of_call(self, name: str) -> Place:
        at = self.placed.get(name)
        return Place() if at is None or not at.file else Place(Path(at.file), at.line or None)


def _spots(
    texts: Sequence[SourceText], new: Mapping[str, str], source: _Source
) -> tuple[list[tuple[SourceText, Spot]], list[Unplaced]]:
    """Return the place of each text that differs, one for each place, and the texts without one."""
    differing = [text for text in texts if new.get(text.name, text.original) != text.original]
    unplaced = []
    found: dict[Any, list[tuple[SourceText, Spot]]] = {}

    def refuse(text: SourceText, why: str) -> None:
        unplaced.append(Unplaced(text.name, new[text.name], source.place_of_call(text.name), why))

    for text in differing:
        places = source.find(text)
        if len(places) == 1:
            found.setdefault(places[0].key, []).append((text, places[0]))
        elif places:
            shown = ", ".join(str(Place(spot.file.path, spot.line)) for spot in places[:4])
            refuse(text, f"{len(places)} places hold the original text: {shown}")
        elif len(source.find(replace(text, original=new[text.name]))) != 1:  # else it is there already
            refuse(text, source.why_missing(text))
    if found:  # a text that stays must not change with another one
        for text in texts:
            if text not in differing and len(places := source.find(text)) == 1 and places[0].key in found:
                for other, _ in found.pop(places[0].key):
                    refuse(other, f"the same place holds the text of {text.name!r}, which stays as it is")
    spots = []
    for sharing in found.values():
        if len({new[text.name] for text, _ in sharing}) > 1:
            names = ", ".join(text.name for text, _ in sharing)
            for text, _ in sharing:
                refuse(text, f"one place holds the texts of {names}, which differ now")
        else:
            spots.append(sharing[0])
    by_place = lambda pair: pair[1].part.start if pair[1].part is not None else 0  # noqa: E731 - a key
    return sorted(spots, key=by_place, reverse=True), unplaced


def _found_files(sources: Mapping[str, Mapping[str, str]], run_dir: Path) -> dict[Path, str]:
    """Return the files of a program's source, and the path that each had in the run.

    The file that the run sees comes first: in a copy of a project, its runs are of the copy. A file that is
    neither there nor where it was is taken from the same place below the working directory.
    """
    found: dict[Path, str] = {}
    for name, known in sources.items():
        path = Path(name)
        near = [Path(os.path.normpath(run_dir.absolute() / known["from_run"])), path]
        near += [Path(*path.parts[n:]).absolute() for n in range(1, len(path.parts))]
        if (there := next(filter(Path.is_file, near), None)) is not None:
            found[there] = name
    if not found:
        said = f"the source of the program of run {run_dir.name} is not here"
        fix = "Run this in the program's folder."
        raise StoreError(Problem("program.no-source", said, Place(Path(next(iter(sources), "."))), fix))
    return found


def _demo_warnings(candidate: Candidate, run: RunFolder) -> list[Problem]:
    if not candidate.demos:
        return []
    said = f"the score includes {counted(len(candidate.demos), 'demonstration')}, which no source holds"
    export = command("runs export", f"{run.reference}:{candidate.id[:6]}", to="program.yaml")
    fix = f"Run the program with `autoprompt.use(FILE)`; `{export}` writes it."
    return [Problem("program.demos-not-applied", said, fix=fix)]


def _changed_warnings(
    sources: Mapping[str, Mapping[str, str]], moved: Mapping[Path, str], changed: Mapping[Path, object]
) -> list[Problem]:
    edited = [p for p in changed if p in moved and file_sha256(p) != sources[moved[p]]["sha256"]]
    said = "the file has changed since the run measured the program"
    fix = "Score the program again before you rely on the result."
    return [Problem("program.source-changed", said, Place(path), fix) for path in edited]


def _diff(file: SourceFile, text: str) -> str:
    path = Path(os.path.relpath(file.path)).as_posix()
    if path.startswith("../"):
        path = file.path.as_posix().lstrip("/")
    lines = difflib.unified_diff(lines_of(file.text), lines_of(text), f"a/{path}", f"b/{path}")
    return "".join(f"{line}\n\\ No newline at end of file\n" if line[-1:] != "\n" else line for line in lines)


def _write(files: Mapping[Path, tuple[bytes, bytes]]) -> None:
    """Write all files or none. files: what each held when it was read, and what it shall hold."""
    done: list[Path] = []
    try:
        for path, (old, new) in files.items():
            if path.read_bytes() != old:
                said, fix = "the file has changed meanwhile", "Nothing was written. Try again."
                raise StoreError(Problem("program.source-edited", said, Place(path), fix))
            write_bytes(path.resolve(), new)
            done.append(path)
    except BaseException as error:
        for path in done:
            write_bytes(path.resolve(), files[path][0])
        if isinstance(error, OSError):
            said, fix = (
                f"cannot be written ({error.strerror})",
                "Nothing was written. Fix that, and try again.",
            )
            raise StoreError(Problem("file.not-writable", said, Place(path), fix)) from error
        raise
