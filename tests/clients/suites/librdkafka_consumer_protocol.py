#!/usr/bin/env python3
"""librdkafka 2.12.1: its group tests by the consumer protocol of KIP-848 (about a quarter of an hour).

    ODRADEK_BIN=PATH tests/clients/suites/librdkafka_consumer_protocol.py
"""

import librdkafka

if __name__ == "__main__":
    librdkafka.main(
        "librdkafka_consumer_protocol",
        __doc__,
        environment={"TEST_CONSUMER_GROUP_PROTOCOL": "consumer"},
    )
