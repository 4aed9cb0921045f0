"""Server of the page of a call, and of the letters that its ends leave for each other: files of a folder that both namespaces share.

mailbox.py PAGE FOLDER PORT     on loopback, which browsers trust with a camera
"""

import http.server
import os
import pathlib
import sys

PAGE, FOLDER, PORT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])


class Handler(http.server.BaseHTTPRequestHandler):
    def letter(self):
        return FOLDER / os.path.basename(self.path)

    def answer(self, status, body=b"", kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/?"):
            self.answer(200, PAGE.read_bytes(), "text/html")
        elif self.letter().is_file():
            self.answer(200, self.letter().read_bytes())
        else:
            self.answer(204)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        # At once, because the other end may be reading.
        part = self.letter().with_suffix(".part")
        part.write_bytes(body)
        part.rename(self.letter())
        self.answer(204)

    def log_message(self, *_):
        pass


try:
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
except KeyboardInterrupt:
    pass
