"""A small web server for the lab: `web.py FOLDER LOG ADDRESS:PORT...`.

It serves the folder's files with ranges and entity tags, and `/hello` with a
fixed text. Each answer is one line `METHOD path status bytes` in the log, so a
test can tell how often, and how much of, an image was really fetched.
"""

import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER, LOG, LISTEN = sys.argv[1], sys.argv[2], sys.argv[3:]
HELLO = b"hello from the lab\n"
log_lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.sent = 0
        self.status = 0
        try:
            self.answer(self.path.split("?", 1)[0])
        except OSError:
            self.close_connection = True  # The client went away: log what it got.
        with log_lock, open(LOG, "a", encoding="utf-8") as log:
            log.write(f"{self.command} {self.path} {self.status} {self.sent}\n")

    do_HEAD = do_GET

    def answer(self, path):
        name = os.path.join(FOLDER, os.path.basename(path))
        if path == "/hello":
            self.head(200, len(HELLO))
            self.body([HELLO])
        elif path != "/" + os.path.basename(path) or not os.path.isfile(name):
            self.head(404, 0)
        else:
            with open(name, "rb") as file:
                self.file(file)

    def file(self, file):
        stat = os.fstat(file.fileno())
        size, tag = stat.st_size, f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
        common = {"ETag": tag, "Accept-Ranges": "bytes"}
        if self.headers.get("If-None-Match") == tag:
            return self.head(304, 0, common)
        first, last, status = 0, size - 1, 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        # A range of another version of the file would be worse than the whole.
        if asked and self.headers.get("If-Range", tag) == tag:
            first, last, status = int(asked[1]), min(int(asked[2] or last), last), 206
            if first > last:
                return self.head(416, 0, common | {"Content-Range": f"bytes */{size}"})
            common["Content-Range"] = f"bytes {first}-{last}/{size}"
        self.head(status, last - first + 1, common)
        file.seek(first)
        left = last - first + 1
        while left > 0 and (part := file.read(min(left, 1 << 18))):
            self.body([part])
            left -= len(part)

    def head(self, status, length, fields=None):
        self.status = status
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in (fields or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def body(self, parts):
        for part in parts if self.command == "GET" else ():
            self.wfile.write(part)
            self.sent += len(part)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


servers = []
for address in LISTEN:
    host, port = address.rsplit(":", 1)
    servers.append(Server((host, int(port)), Handler))
for server in servers[1:]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
servers[0].serve_forever()
