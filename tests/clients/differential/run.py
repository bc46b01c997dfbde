#!/usr/bin/env python3
"""Asks Odradek and Apache Kafka the same, and compares their answers field by field.

    ODRADEK_BIN=PATH tests/clients/differential/run.py            every API, every version
    ODRADEK_BIN=PATH tests/clients/differential/run.py --short    three versions of each
    ODRADEK_BIN=PATH tests/clients/differential/run.py Fetch JoinGroup

What differs and is not in tests/clients/differences.md fails the run. `--seed N` draws other values.
"""

import argparse
import collections
import os
import random
import sys
import time

import brokers
import script
import wire
from pair import Pair, Table

TABLE = os.path.join(brokers.CLIENTS, "differences.md")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("apis", nargs="*", help="only these APIs")
    parser.add_argument("--short", action="store_true", help="the oldest, the newest and one more version of each")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    brokers.fetch_jars()
    apis = wire.definitions(brokers.jar_of_clients())
    begun = time.monotonic()
    kafka = odradek = None
    try:
        kafka, odradek = brokers.Kafka(), brokers.Odradek()
        passed = compare(arguments, apis, kafka, odradek, begun)
        for broker in (kafka, odradek):
            broker.stop()
        if odradek.process.returncode != 0:
            print(f"Odradek ended with {odradek.process.returncode}")
            passed = False
    finally:
        for broker in (kafka, odradek):
            if broker and broker.process.poll() is None:
                broker.kill()
    for broker in (kafka, odradek):
        if passed:
            broker.remove()
        else:
            print(f"its log: {broker.log}")
    sys.exit(0 if passed else 1)


def compare(arguments, apis, kafka, odradek, begun):
    table = Table(TABLE)
    pair = Pair((kafka.address, odradek.address), apis, table)
    served = [{one["ApiKey"]: (one["MinVersion"], one["MaxVersion"]) for one in
               pair.quiet(script.API_VERSIONS, 3, {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"},
                          side)["ApiKeys"]} for side in (0, 1)]
    served = served[1]
    without = set(served) - set(script.SCENARIOS)
    if without:
        sys.exit(f"Odradek serves {without}, and the script has nothing for it")
    wanted = [key for key in script.SCENARIOS if key in served
              and (not arguments.apis or apis[key].name in arguments.apis)]
    one = script.Script(pair, random.Random(arguments.seed), arguments.short)
    one.build_world()
    one.run(wanted, served, apis)
    wrong = False
    kinds = collections.Counter(pair.unexplained)
    for difference, count in kinds.items():
        wrong = True
        print(f"{difference.api} v{difference.version}: {difference.what or 'as usual'}: {difference.field}: "
              f"Kafka {difference.kafka}, Odradek {difference.odradek}" + (f" ({count} times)" if count > 1 else ""))
    whole = not arguments.apis and not arguments.short
    if whole:
        for row in table.unused():
            wrong = True
            print(f"not seen any more: {' | '.join(row)}")
    versions = 0
    for key in wanted:
        for version in range(served[key][0], served[key][1] + 1):
            if pair.requests[key, version] == 0 and arguments.short:
                continue
            versions += 1
            if pair.requests[key, version] < script.AT_LEAST or pair.invalid[key, version] < script.AT_LEAST_INVALID:
                if not arguments.short:
                    wrong = True
                    print(f"{apis[key].name} v{version}: {pair.requests[key, version]} requests, "
                          f"{pair.invalid[key, version]} invalid")
    codes = sorted(code for code in pair.codes if code)
    missing = [code for code in script.CODES if code not in codes]
    if whole and missing:
        wrong = True
        print(f"error codes that no request drew from both any more: {missing}")
    print(f"error codes that both gave: {', '.join(map(str, codes))}")
    print(f"differential: {sum(pair.requests.values())} requests, {len(wanted)} APIs in {versions} versions, "
          f"{len(codes)} error codes, {pair.explained} differences explained by the table, "
          f"{len(pair.unexplained)} not, {time.monotonic() - begun:.0f} s")
    return not wrong


if __name__ == "__main__":
    main()
