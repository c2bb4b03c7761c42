"""A service that books payments: each POST that reaches it is a payment more."""

import json
import signal
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

payments = count(1)


class Payments(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        time.sleep(0.5)
        body = json.dumps({"payment": next(payments)}).encode()
        self.send_response(201)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


# A shell starts what runs in its background with SIGINT ignored.
signal.signal(signal.SIGINT, signal.SIG_DFL)
ThreadingHTTPServer(("127.0.0.1", 8000), Payments).serve_forever()
