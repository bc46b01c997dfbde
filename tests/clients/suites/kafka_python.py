#!/usr/bin/env python3
"""kafka-python 3.0.12: its integration tests.

    ODRADEK_BIN=PATH tests/clients/suites/kafka_python.py
    ODRADEK_BIN=PATH tests/clients/suites/kafka_python.py test_admin_integration::test_delete_groups
    tests/clients/suites/kafka_python.py --bootstrap 127.0.0.1:9092    # Apache Kafka
"""

import os
import subprocess
import sys
import xml.etree.ElementTree as xml

import suite

VERSION = "3.0.12"
# What the broker looks like by the APIs it has, which one of the tests asks for.
KAFKA_VERSION = "4.3.1"

# The source distribution leaves this file out; it is enough for a broker from outside.
SERVICE = """class ExternalService:
    def __init__(self, host, port): pass
    def open(self): pass
    def close(self): pass
class SpawnedService: pass
"""

# kafka-python loses a subscription that is made while its first Metadata, which asks for no topic, is
# under way: the answer clears the wish for another one, and the next refresh is five minutes away. With
# a broker that answers in half a millisecond that happens every other time (3 of 3 passed on Kafka), so
# the tests that subscribe at once wait until the client has its first answer.
SUBSCRIBES = "        consumer.subscribe([topic])"
FIRST_ANSWER = "        consumer.topics()\n"


def fetch(folder):
    pip = [sys.executable, "-m", "pip"]
    package = f"kafka-python=={VERSION}"
    suite.call([*pip, "download", "-q", "--no-binary", ":all:", "--no-deps", package], folder)
    suite.call(["tar", "xzf", f"kafka_python-{VERSION}.tar.gz", "--strip-components=1"], folder)
    suite.call([sys.executable, "-m", "venv", "venv"], folder)
    suite.call(
        ["venv/bin/pip", "install", "-q", "pytest==9.2.0", "pytest-mock==3.17.0",
         "pytest-timeout==2.4.0", "py==1.11.0", "lz4==4.4.5", "python-snappy==0.7.3",
         "zstandard==0.25.0", "crc32c==2.9.post0"],
        folder,
    )
    os.makedirs(os.path.join(folder, "kroot"), exist_ok=True)
    open(os.path.join(folder, "test", "__init__.py"), "a", encoding="utf-8").close()
    with open(os.path.join(folder, "test", "service.py"), "w", encoding="utf-8") as service:
        service.write(SERVICE)
    tests = os.path.join(folder, "test", "integration", "test_producer_integration.py")
    suite.insert_before(tests, SUBSCRIBES, FIRST_ANSWER)


def run_tests(folder, address, tests):
    out = os.path.join(folder, "out.xml")
    if os.path.exists(out):
        os.remove(out)
    chosen = ["test/integration"]
    if tests:
        chosen = ["test/integration/" + t.replace("::", ".py::", 1) for t in tests]
    environment = dict(
        os.environ,
        KAFKA_ROOT=os.path.join(folder, "kroot"),
        KAFKA_URI=f"kafka://{address}",
        KAFKA_VERSION=KAFKA_VERSION,
    )
    with open(os.path.join(folder, "run.log"), "wb") as log:
        subprocess.run(
            ["venv/bin/python", "-m", "pytest", "-q", *chosen, "--timeout=60", f"--junitxml={out}"],
            cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False,
        )
    results = {}
    for case in xml.parse(out).getroot().iter("testcase"):
        place = case.get("classname").removeprefix("test.integration.")
        result = ("pass", "")
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                kind = "skip" if child.tag == "skipped" else "fail"
                result = (kind, (child.get("message") or "").split("\n")[0][:200])
        module, _, inner = place.partition(".")
        name = f"{module}::{inner}::{case.get('name')}" if inner else f"{module}::{case.get('name')}"
        results[name] = result
    return results


if __name__ == "__main__":
    suite.run(
        "kafka_python",
        fetch,
        {"node.id": 0, "num.partitions": 4, "group.min.session.timeout.ms": 1000},
        run_tests,
        document=__doc__,
    )
