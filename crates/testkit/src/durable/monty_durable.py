"""What pydantic-monty takes to put a script away that waits in its host's function, and to go on with it in another process."""

import sys
import time

import pydantic_monty

CALLS, ROUNDS = int(sys.argv[1]), 15
SCRIPT = f"""
texts = []
for number in range({CALLS}):
    texts.append(echo(f'number {{number}}'))
texts.append(ask('last'))
len(texts)
"""


def middle(times):
    return sorted(times)[len(times) // 2] * 1000


def run(snapshot):
    while not isinstance(snapshot, pydantic_monty.MontyComplete):
        if snapshot.function_name == "ask":
            return snapshot
        snapshot = snapshot.resume({"return_value": snapshot.args[0]})
    return snapshot


dumps, loads, fresh, size = [], [], [], 0
with pydantic_monty.Monty() as pool:
    for _ in range(ROUNDS):
        with pool.checkout(limits={"max_suspensions": CALLS * 10}) as session:
            started = time.perf_counter()
            waiting = run(session.feed_start(SCRIPT))
            fresh.append(time.perf_counter() - started)
            started = time.perf_counter()
            state = waiting.dump()
            dumps.append(time.perf_counter() - started)
            size = len(state)
        started = time.perf_counter()
        with pool.checkout(limits={"max_suspensions": CALLS * 10}) as session:
            ended = session.load_snapshot(state).resume({"return_value": "last"})
            assert ended.output == CALLS + 1, ended
            loads.append(time.perf_counter() - started)

print(f"dump of a script that waits after {CALLS} calls, {size} bytes | {middle(dumps):.3f}")
print(f"load and go on to its end, with its worker's checkout | {middle(loads):.3f}")
print(f"the same script until there, calls of a function of the host | {middle(fresh):.3f}")
