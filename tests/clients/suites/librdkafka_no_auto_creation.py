#!/usr/bin/env python3
"""librdkafka 2.12.1: its tests of brokers that do not create topics by themselves.

    ODRADEK_BIN=PATH tests/clients/suites/librdkafka_no_auto_creation.py
"""

import librdkafka

if __name__ == "__main__":
    librdkafka.main(
        "librdkafka_no_auto_creation",
        __doc__,
        scenario="noautocreate",
        settings={"auto.create.topics.enable": "false"},
    )
