"""The live report over HTTP, for this machine alone.

Every answer is made from a table of known addresses (the report's own files), so no address can name a file of the
disk. Requests for another host's name are refused, so that no page of another site can reach the server through a name
that it made point here.
"""

from __future__ import annotations

import errno
import socket
import sys
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headrace.analysis.report.page import policy, style
from headrace.analysis.report.site import Live
from headrace.errors import HeadraceError

HOST = "127.0.0.1"
PATIENCE = 60  # seconds for a silent reader, and for a request as a whole
KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "pdf": "application/pdf",
    "gif": "image/gif",
    "csv": "text/csv; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "tex": "text/x-tex; charset=utf-8",
}


class Server(ThreadingHTTPServer):
    """Has its port from the start, and has looked at the runs once."""

    daemon_threads = True

    def __init__(self, root: Path, port: int, every: float) -> None:
        try:
            super().__init__((HOST, port), Answer)
        except OSError as error:
            raise HeadraceError(_why_not(port, error)) from error
        self.address = f"http://{HOST}:{self.server_port}/"
        try:
            self.live = Live(root, every)
        except BaseException:
            self.server_close()
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who goes away in the middle of an answer is no error, nor is one whose connection the server closed
        itself, as Ctrl-C makes it do beside a thread that has just begun to answer."""
        closed = request.fileno() < 0
        if not closed and not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _why_not(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {HOST} is in use: choose another with --port, or --port 0 for any that is free"
    return f"cannot listen on port {port} of {HOST}: {error.strerror}. Choose another with --port"


class Answer(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the report's own addresses."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def handle_one_request(self) -> None:
        """A request that does not arrive whole in time, however it drips, ends the connection."""
        self._late = threading.Timer(PATIENCE, self._hang_up)
        self._late.daemon = True
        self._late.start()
        try:
            super().handle_one_request()
        finally:
            self._late.cancel()

    def _hang_up(self) -> None:
        with suppress(OSError):  # it has gone by itself
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self._late.cancel()
        self._answer(*self._found())

    do_HEAD = do_GET

    def refuse(self) -> None:
        """Nothing here can be changed; what came with the request is not read, so the connection ends."""
        self.close_connection = True
        self._answer(*self._said(HTTPStatus.METHOD_NOT_ALLOWED, "this server answers GET and HEAD only"))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_CONNECT = do_TRACE = refuse

    def version_string(self) -> str:
        return "headrace"

    def _found(self) -> tuple[HTTPStatus, str, bytes]:
        if not self._is_for_us():
            return self._said(HTTPStatus.FORBIDDEN, "this server answers for 127.0.0.1 and localhost only")
        try:
            asked = urlsplit(self.path)
            address = unquote(asked.path).removeprefix("/") or "index.html"
            make = self.server.live.file(address, asked.query)
            if make is None:
                return self._said(HTTPStatus.NOT_FOUND, "there is no such page")
            return HTTPStatus.OK, KINDS[address.rpartition(".")[2]], make()
        except ValueError:
            return self._said(HTTPStatus.BAD_REQUEST, "this is no address")
        except (HeadraceError, OSError) as error:
            return self._said(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def _is_for_us(self) -> bool:
        """Whether the request names this server by its own name, and comes from its own pages or a reader's hand."""
        names = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        hosts = self.headers.get_all("Host") or []
        named = len(hosts) == 1 and hosts[0].lower() in names
        origin = self.headers.get("Origin") in (None, *(f"http://{name}" for name in names))
        return named and origin and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    def _said(self, status: HTTPStatus, text: str) -> tuple[HTTPStatus, str, bytes]:
        return status, "text/plain; charset=utf-8", f"{text}\n".encode(errors="replace")

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Security-Policy", f"{self._policy(kind)}; frame-ancestors 'none'")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _policy(self, kind: str) -> str:
        return policy(style(self.server.live.site().context)) if kind == KINDS["html"] else "default-src 'none'"

    def log_message(self, *_: Any) -> None:
        """Logs nothing: a live page asks every few seconds."""
