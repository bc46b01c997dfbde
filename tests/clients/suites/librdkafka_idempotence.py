#!/usr/bin/env python3
"""librdkafka 2.12.1: its tests that need a broker, once more with idempotence switched on in every
producer (about half an hour).

    ODRADEK_BIN=PATH tests/clients/suites/librdkafka_idempotence.py
"""

import librdkafka

if __name__ == "__main__":
    librdkafka.main("librdkafka_idempotence", __doc__, switches=["-P"])
