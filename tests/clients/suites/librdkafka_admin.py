#!/usr/bin/env python3
"""librdkafka 2.12.1: its one test of administration, 0081, by the functions it is made of, since as a
whole it needs access control lists (about five minutes).

    ODRADEK_BIN=PATH tests/clients/suites/librdkafka_admin.py
    ODRADEK_BIN=PATH tests/clients/suites/librdkafka_admin.py do_test_AlterConfigs
"""

import os
import re

import librdkafka
import suite

NUMBER = "0081"

LIST = suite.read_list(os.path.join(suite.HERE, "librdkafka_admin.tsv"))


def run_tests(folder, address, tests):
    results = {}

    def run_one(test):
        # The runner takes what the name of a subtest holds: the function's, and the line of the source.
        text, log = librdkafka.run_number(
            folder, address, NUMBER, "default", {"SUBTESTS": f"{test}:"}, (), f"{NUMBER}_{test}"
        )
        found = librdkafka.results_of(NUMBER, text)
        ended = ("fail", f"the runner ended without a result: see {log}")
        results[test] = found.get("0081_admin", ended)
        if results[test][0] == "pass" and not re.search(rf"\] \[ {test}:.*: PASS \(", text):
            results[test] = ("fail", f"nothing was run: see {log}")

    librdkafka.in_two_lanes(run_one, tests or [t for t, (result, _) in LIST.items() if result == "pass"])
    return results


if __name__ == "__main__":
    suite.run(
        "librdkafka_admin",
        librdkafka.fetch,
        librdkafka.SETTINGS,
        run_tests,
        source="librdkafka",
        document=__doc__,
    )
