"""A DNS server of one name, whose addresses change when the test says so."""

import socket
import struct
import threading

A_RECORD = 1


class NameServer:
    def __init__(self, name, addresses):
        self._question = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
        self.addresses = list(addresses)
        self.silent = False  # as if it were gone
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            query, client = self._socket.recvfrom(4096)
            if not query:
                return
            if not self.silent:
                self._socket.sendto(self._answer(query), client)

    def _answer(self, query):
        end = query.index(b"\0", 12) + 5  # name, type, class
        kind = struct.unpack("!H", query[end - 4:end - 2])[0]
        known = query[12:end - 4].lower() == self._question
        addresses = self.addresses if known and kind == A_RECORD else []
        header = query[:2] + struct.pack("!HHHHH", 0x8180 | (0 if known else 3), 1, len(addresses), 0, 0)
        records = [struct.pack("!HHHIH", 0xC00C, A_RECORD, 1, 1, 4) + socket.inet_aton(address) for address in addresses]
        return header + query[12:end] + b"".join(records)

    def close(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()
