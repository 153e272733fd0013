"""What is on this machine: `init` (a starter folder), `models`, `cache`, `trust` and `config`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from autoprompt.cli import options
from autoprompt.cli.output import clean, print_json
from autoprompt.errors import Place, Problem, UsageError
from autoprompt.settings import trust as trusted
from autoprompt.settings import user_file
from autoprompt.settings.records import CallSettings
from autoprompt.settings.sources import assign, setting_name
from autoprompt.text.machine import DISTRIBUTION, install_line
from autoprompt.text.names import counted

# --- init ---

init_app = typer.Typer(rich_markup_mode=None, add_completion=False)

_IGNORED = ".gitignore"
# Target -> file among the starter's; a package cannot hold a .gitignore that does not apply to itself.
_FILES = {
    "README.md": "README.md",
    "autoprompt.yaml": "autoprompt.yaml",
    "datasets/tickets.jsonl": "datasets/tickets.jsonl",
    "datasets/tickets.task.yaml": "datasets/tickets.task.yaml",
    _IGNORED: "gitignore",
}
_WORKFLOW = ".github/workflows/prompt-check.yml"
_CI = "ci.yaml"
_CI_FILES = {_CI: _CI, _WORKFLOW: "prompt-check.yml"}
_MARKS = ("autoprompt.yaml", _CI)  # a folder that has one of them has been started already
_WATCHED = ("prompts", "datasets", "baselines")  # folders that the workflow watches


@init_app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder to make or fill.")] = Path(),
    ci: Annotated[
        bool,
        typer.Option("--ci", help="Add a check for GitHub Actions."),
    ] = False,
) -> None:
    """Make a starter folder: a small dataset, its task and a config. Existing files are kept."""
    starter = resources.files("autoprompt.cli") / "starter"
    files = _FILES | (_CI_FILES if ci else {})
    if ci and any((folder / name).exists() for name in _MARKS):
        files = _CI_FILES
    watched = _named_in_check(folder)
    written = []
    for name, source in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("x", encoding="utf-8") as file:
                file.write(_starting(starter / source, watched))
        except FileExistsError:
            typer.echo(f"kept     {target} (it was there)")
        else:
            typer.echo(f"written  {target}")
            written.append(name)
    if lacking := _not_ignored(folder, starter):
        typer.echo(
            f"{folder / _IGNORED} lacks: {', '.join(lacking)}. Unless git ignores them already, add them"
        )
    if ci:
        (folder / "baselines").mkdir(exist_ok=True)
    before = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    if not ci:
        typer.echo(f"Next: {before}autoprompt run --config autoprompt.yaml --dry-run")
        return
    typer.echo("Next:")
    if install_line() is None:
        typer.echo(
            f"  check PACKAGE in {_WORKFLOW}: your autoprompt came from a file or folder of this machine"
        )
    typer.echo("  name your model in ci.yaml, and give the workflow its key: the secret OPENAI_API_KEY")
    typer.echo(f"  {before}autoprompt check --config ci.yaml --update-baseline")
    there = [name for name in (*watched, *_CI_FILES, *_WATCHED) if (folder / name).exists()]
    tops = dict.fromkeys(name.partition("/")[0] for name in (*written, *there))
    typer.echo(f"  {before}git add {' '.join(tops)}")


def _named_in_check(folder: Path) -> list[str]:
    """Return the files below the folder that its own `ci.yaml` names, and that no watched folder holds.

    Raises:
        ConfigError: The file is no config file.
    """
    from autoprompt.settings.records import ConfigFile
    from autoprompt.settings.sidecar import find_sidecar
    from autoprompt.settings.yaml_file import load_yaml

    if not (folder / _CI).exists():
        return []
    given = load_yaml(folder / _CI, ConfigFile)
    paths = [value for name in given.model_fields_set if isinstance(value := getattr(given, name), Path)]
    if given.prompt is not None and given.prompt.startswith("@"):
        paths.append(folder / given.prompt[1:])
    for address in (given.program, given.metric):
        module = (address or "").removeprefix("python:").partition(":")[0]
        paths.append(path := folder / f"{module.replace('.', '/')}.py")
        paths += _imported(path, folder)
    paths += [sidecar for path in paths if (sidecar := find_sidecar(path)) is not None]
    root = folder.resolve()
    files = sorted({path.resolve() for path in paths if path.is_file()})
    names = [path.relative_to(root).as_posix() for path in files if path.is_relative_to(root)]
    return [name for name in names if name.partition("/")[0] not in _WATCHED]


def _imported(file: Path, folder: Path) -> list[Path]:
    """Return the modules of this folder that a file imports, and those that these import.

    Prompts may be there.
    """
    import ast

    from autoprompt.text.python_source import parse_code

    found: dict[Path, None] = {}
    left = [file]
    while left:
        path = left.pop()
        try:
            tree = parse_code(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        names = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                parts = path.relative_to(folder).parts[: -node.level] if node.level else ()
                module = "/".join((*parts, *(node.module or "").split(".")))
                names += [module, *(f"{module}/{alias.name}" for alias in node.names)]
        for name in names:
            stem = name.strip("/").replace(".", "/") or "__init__"
            for made in (folder / f"{stem}.py", folder / stem / "__init__.py"):
                if made.is_file() and made not in found and made != file:
                    found[made] = None
                    left.append(made)
    return list(found)


def _starting(file: Traversable, watched: Iterable[str]) -> str:
    """Return a file of the starter. The workflow installs the version that wrote it.

    watched: Files that the workflow watches beside its own.
    """
    text = file.read_text(encoding="utf-8")
    more = "".join(f", {json.dumps(name, ensure_ascii=False)}" for name in watched)
    text = text.replace(f'"{_WATCHED[-1]}/**"', f'"{_WATCHED[-1]}/**"{more}')
    line = install_line()
    return text if line is None else text.replace(f'PACKAGE: "{DISTRIBUTION}"', f'PACKAGE: "{line}"')


def _not_ignored(folder: Path, starter: Traversable) -> list[str]:
    """Return the lines of our .gitignore that the folder's own, or none, does not have."""
    target = folder / _IGNORED
    has = target.read_text(encoding="utf-8", errors="replace") if target.is_file() else ""
    own = {line.strip().strip("/") for line in has.splitlines()}
    ours = (starter / _FILES[_IGNORED]).read_text(encoding="utf-8").split()
    return [line for line in ours if line.strip("/") not in own]


# --- models ---

models_app = typer.Typer(
    rich_markup_mode=None, add_completion=False, no_args_is_help=True, help="List and download local models."
)


@models_app.command("list")
def list_models(*, as_json: options.Json = False) -> None:
    """List the models that need no endpoint, and whether their weights are here."""
    from rich.text import Text

    from autoprompt.cli import render
    from autoprompt.llm import weights
    from autoprompt.report.numbers import megabytes

    found = weights.table()
    if as_json:
        rows = [
            {
                "name": status.weights.name,
                "size_bytes": status.weights.size_bytes,
                "licence": status.weights.licence,
                "sha256": status.weights.sha256,
                "note": status.weights.note,
                "path": str(status.path),
                "is_present": status.is_present,
            }
            for status in found
        ]
        print_json({"models": rows})
        return
    made = render.table("model", "size", "licence", "here", "note", right=("size",))
    for status in found:
        known = status.weights
        here = "yes" if status.is_present else "no"
        cells = (f"local:{known.name}", megabytes(known.size_bytes), known.licence, here, known.note)
        made.add_row(*(Text(cell) for cell in cells))
    console = render.console()
    console.print(made)
    console.print(Text(f"Weights are in {weights.weights_dir()}. Download: autoprompt models pull [NAME]"))


@models_app.command()
def pull(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Name in `models list`. [default: the model that `--model local` uses]"
        ),
    ] = None,
    *,
    quiet: options.Quiet = False,
) -> None:
    """Download a model's weights and check their checksum. A broken download is continued."""

    from autoprompt.cli import render
    from autoprompt.cli.live import RunView, watching
    from autoprompt.llm import weights
    from autoprompt.llm.client import WeightsProgress

    def report(done: int, total: int, what: str) -> None:
        emit(WeightsProgress(what, done, total).to_dict())

    with watching(render.console(stderr=True), RunView(), quiet=quiet) as (_, emit):
        path = weights.pull((name or weights.DEFAULT).removeprefix("local:"), report)
    typer.echo(str(path))


# --- cache ---

cache_app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Show or clear the response cache.",
)
Folder = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir",
        metavar="FOLDER",
        envvar="AUTOPROMPT_CACHE_DIR",
        parser=options.path,
        help="Folder of the response cache.",
    ),
]


@cache_app.command()
def show(*, cache_dir: Folder = None, as_json: options.Json = False) -> None:
    """Show where the cache is and how much it holds."""
    from autoprompt.llm.kept.cache import ResponseCache
    from autoprompt.report.numbers import megabytes

    with closing(ResponseCache(cache_dir)) as cache:
        stats = cache.stats()
    if as_json:
        print_json({**asdict(stats), "path": str(stats.path)})
        return
    typer.echo(
        f"{stats.path}: {counted(stats.answers, 'answer')}, {megabytes(stats.size_bytes)} "
        f"of at most {megabytes(stats.max_bytes)}"
    )


@cache_app.command()
def clear(*, cache_dir: Folder = None, yes: options.Yes = False) -> None:
    """Forget all answers. Run folders keep their own."""
    from autoprompt.llm.kept.cache import ResponseCache

    with closing(ResponseCache(cache_dir)) as cache:
        before = cache.stats()
        options.confirm(f"Forget {counted(before.answers, 'answer')} in {before.path} for good?", yes=yes)
        cache.clear()
    typer.echo(f"{before.path}: {counted(before.answers, 'answer')} forgotten", err=True)


# --- trust ---

trust_app = typer.Typer(rich_markup_mode=None, add_completion=False)


@trust_app.command()
def trust(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", parser=options.path, help="Folder to trust, including its subfolders."
        ),
    ] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Stop trusting the folder.")] = False,
    as_json: options.Json = False,
) -> None:
    """Trust a folder for good, or list the trusted ones.

    In a trusted folder, a sidecar, a `.env` and a run folder are treated as if you had written them: they may
    name code that is executed, files that are sent and addresses that get your key.
    """
    if folder is None:
        if remove:
            fix = "Name it: autoprompt trust FOLDER --remove."
            raise UsageError(Problem("usage.no-trusted-folder", "--remove needs the folder", fix=fix))
        _list_trusted(as_json=as_json)
        return
    path = trusted.remove(folder) if remove else trusted.store(folder)
    if as_json:
        print_json({"folder": str(path), "trusted": not remove})
        return
    typer.echo(f"{'no longer trusted' if remove else 'trusted'}: {clean(str(path))}")


def _list_trusted(*, as_json: bool) -> None:
    folders = trusted.stored_folders()
    if as_json:
        print_json({"folders": [str(folder) for folder in folders]})
        return
    for folder in folders:
        typer.echo(clean(str(folder)))
    if not folders:
        typer.echo("No folder is trusted. Trust one with: autoprompt trust FOLDER", err=True)


# --- config ---

config_app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    help="Set models, prices and limits once, for all runs.",
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Setting, such as `price_input`.")]


@config_app.command("list")
def list_settings(*, as_json: options.Json = False) -> None:
    """Show the settings and the file that they are in."""
    found = user_file.read()
    if as_json:
        print_json({"file": str(user_file.path()), "settings": found})
        return
    for name, value in found.items():
        typer.echo(clean(f"{name}: {value}"))
    typer.echo(f"{user_file.path()}{'' if found else ': nothing is set'}", err=True)


@config_app.command("set")
def set_setting(
    name: Name, value: Annotated[str, typer.Argument(metavar="VALUE", help="Its value, as in YAML.")]
) -> None:
    """Set one for all runs. Flags, variables, a config file and a dataset's sidecar override it.

    Prices are in USD per million tokens. If the file names a `model`, they count for that model alone.
    """
    name, settings = setting_name(name), user_file.read()
    assign(settings, name, value, CallSettings.model_fields, user_file.place(name))
    user_file.write(settings)
    typer.echo(f"{user_file.path()}: {clean(name)} set", err=True)


@config_app.command()
def unset(name: Name) -> None:
    """Take one out of the file."""
    found = user_file.read()
    if name not in found:
        fix = f"The file sets: {', '.join(found)}." if found else "The file sets nothing."
        raise UsageError(
            Problem("settings.not-set", f"{name!r:.80} is not set", Place(user_file.path()), fix)
        )
    user_file.write({key: value for key, value in found.items() if key != name})
    typer.echo(f"{user_file.path()}: {name} unset", err=True)
