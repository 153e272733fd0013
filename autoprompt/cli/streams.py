"""stdout and stderr of a command: what they cannot take changes neither its work nor its exit code."""

from __future__ import annotations

import io


class _Pipe(io.FileIO):
    """A file that takes what nobody reads any more, `autoprompt check | head -1`, and drops it.

    Of another fault (a full disk) it tells once and drops the rest: a buffer that is written again as Python
    ends would make the exit code 120, with a traceback.
    """

    _has_failed = False

    def write(self, data: object, /) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]  # whatever FileIO takes
        if self._has_failed:
            return size
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            return size
        except OSError:
            self._has_failed = True
            raise


def lenient(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """`stream` without errors of characters that it has no form for, and of a reader that has left.

    A gate's verdict and a run that is paid for do not end with who looks on: files are written all the same.
    """
    stream.flush()
    raw = _Pipe(stream.fileno(), "wb", closefd=False)
    # As Python makes its own: with `python -u` there is no buffer.
    is_unbuffered = isinstance(stream.buffer, io.RawIOBase)
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
