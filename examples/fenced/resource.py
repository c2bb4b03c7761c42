#!/usr/bin/env python3
"""A service that pays, and refuses whoever comes with a fence that is not the newest.

It needs nothing but Python. The highest fence of each operation is kept in the transaction that pays:
that is the whole of it, and what no lease can do in its place.
"""

import json
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Ledger:
    """Payments, and the highest fence that was seen for each operation."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.database.executescript(
            """
            CREATE TABLE IF NOT EXISTS fences (operation TEXT PRIMARY KEY, fence INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS payments (
                id INTEGER PRIMARY KEY, operation TEXT NOT NULL UNIQUE, amount TEXT NOT NULL);
            """
        )

    def pay(self, operation, fence, amount):
        """Pays once: answers the payment's number, or None if the fence is stale."""
        with self.lock:
            self.database.execute("BEGIN IMMEDIATE")
            try:
                payment = self._pay(operation, fence, amount)
                self.database.execute("COMMIT")
                return payment
            except BaseException:
                self.database.execute("ROLLBACK")
                raise

    def _pay(self, operation, fence, amount):
        seen = self.database.execute(
            "SELECT fence FROM fences WHERE operation = ?", (operation,)
        ).fetchone()
        if seen and fence < seen[0]:
            return None
        self.database.execute(
            "INSERT INTO fences VALUES (?, ?) "
            "ON CONFLICT (operation) DO UPDATE SET fence = excluded.fence",
            (operation, fence),
        )
        # An earlier attempt may have paid and not lived to say so.
        self.database.execute(
            "INSERT OR IGNORE INTO payments (operation, amount) VALUES (?, ?)", (operation, amount)
        )
        (payment,) = self.database.execute(
            "SELECT id FROM payments WHERE operation = ?", (operation,)
        ).fetchone()
        return payment


class Payments(BaseHTTPRequestHandler):
    """POST /payments with the headers that Tidegate adds."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        operation = self.headers.get("x-idempotency-operation")
        fence = self.headers.get("x-idempotency-fence", "")
        if not operation or not fence.isdecimal() or len(fence) > 18:
            return self.answer(400, {"error": "no x-idempotency-operation and x-idempotency-fence"})
        payment = self.server.ledger.pay(operation, int(fence), body.decode(errors="replace"))
        if payment is None:
            # Somebody newer owns the operation: nothing of this answer must free or finish it.
            return self.answer(409, {"error": "stale fence"}, {"idempotency-result": "hold"})
        self.answer(201, {"payment": payment}, {"location": f"/payments/{payment}"})

    def answer(self, status, content, headers=()):
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    server = ThreadingHTTPServer(("127.0.0.1", port), Payments)
    server.ledger = Ledger(sys.argv[2] if len(sys.argv) > 2 else ":memory:")
    print(f"payments on 127.0.0.1:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
