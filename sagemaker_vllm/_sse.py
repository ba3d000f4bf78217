"""Bytes of a container → the data of its events (pure, incremental).

vLLM writes Server-Sent Events, one `data:` line an event; LMI writes bare JSON lines. So every line
with data is an event, and whether blank lines come between does not matter.
"""

from sagemaker_vllm._errors import StreamDecodeError

MAX_LINE = 32 * 1024 * 1024
"""Longest line that is kept, in bytes: what a hostile stream can make a decoder hold."""

# Fields of the SSE format that carry no data.
_OTHER_FIELDS = (b":", b"event:", b"id:", b"retry:")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SSEDecoder:
    """Cuts a byte stream into event data, wherever the parts may have cut it."""

    def __init__(self) -> None:
        """Start with no open line."""
        # Fragments of the open line: joined once, so that many small parts cost no more.
        self._open: list[bytes] = []
        self._size = 0

    def feed(self, part: bytes) -> list[bytes]:
        """Return the data of each event that `part` completes.

        Raises:
            StreamDecodeError: A line is longer than `MAX_LINE`.
        """
        # The common part: one event of vLLM's, and the blank line after it.
        if part[-2:] == b"\n\n" and not self._open:
            lines = part.splitlines()
            if len(lines) == 2 and lines[0][:7] == b"data: {":
                return [lines[0][6:]]
        # A CR alone, an LF and CRLF end a line; the blank line that a CRLF makes here is skipped.
        if b"\r" in part:
            part = part.replace(b"\r", b"\n")
        lines = part.split(b"\n")
        if len(lines) == 1:
            self._keep(part)
            return []
        if self._open:
            self._open.append(lines[0])
            lines[0] = b"".join(self._open)
            self._open.clear()
            self._size = 0
        self._keep(lines.pop())
        return [data for line in lines if line and (data := _data_of(line))]

    def finish(self) -> list[bytes]:
        """Return the data of a last line that no newline ends."""
        line = b"".join(self._open)
        self._open.clear()
        self._size = 0
        data = _data_of(line)
        return [data] if data else []

    def _keep(self, fragment: bytes) -> None:
        if not fragment:
            return
        self._open.append(fragment)
        self._size += len(fragment)
        if self._size > MAX_LINE:
            message = f"A line of the stream is longer than {MAX_LINE} bytes."
            raise StreamDecodeError(message)


def _data_of(line: bytes) -> bytes:
    """Return a line's data: of `data: x`, `data:x` or `x`; nothing for other SSE fields."""
    if line.startswith(b"data:"):
        return line[5:].strip()
    line = line.removeprefix(_BYTE_ORDER_MARK).strip()
    if line.startswith(_OTHER_FIELDS) or line == b"data":
        return b""
    return line[5:].strip() if line.startswith(b"data:") else line
