"""A Celery chord of trivial members on Redis: how long from the first member to the callback's start.

    chord.py worker                  runs the workers until it is told to stop
    chord.py run MEMBERS             sends a chord, waits for its callback, prints one JSON object

CHORD_REDIS_URL names the server. Times are the machine's monotonic clock, which its processes share.
"""

import json
import os
import sys
import time

import redis
from celery import Celery, chord

URL = os.environ["CHORD_REDIS_URL"]
app = Celery("chord", broker=URL, backend=URL)
app.conf.update(
    task_ignore_result=False,
    worker_prefetch_multiplier=64,
    worker_hijack_root_logger=False,
    task_acks_late=False,
    result_expires=600,
)

# Each worker process says once when it began: one command more for each process, not for each member.
begun = False


@app.task(name="member")
def member():
    global begun
    if not begun:
        begun = True
        redis.Redis.from_url(URL).rpush("begun", time.monotonic())


@app.task(name="callback")
def callback(results):
    redis.Redis.from_url(URL).rpush("called", json.dumps([time.monotonic(), len(results)]))


def run(members):
    # It waits for the callback longer than the client library waits for an answer by itself.
    server = redis.Redis.from_url(URL, socket_timeout=150)
    server.delete("begun", "called")
    chord((member.si() for _ in range(members)), callback.s()).apply_async()
    called = server.blpop("called", timeout=120)
    if called is None:
        sys.exit("the callback was not called within 120 s")
    ended, count = json.loads(called[1])
    if count != members:
        sys.exit(f"the callback got {count} results of {members}")
    first = min(float(at) for at in server.lrange("begun", 0, -1))
    print(json.dumps({"members": members, "seconds": ended - first}))


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        app.worker_main(["worker", "--concurrency=2", "--loglevel=ERROR", "--without-gossip",
                         "--without-mingle", "--without-heartbeat"])
    else:
        run(int(sys.argv[2]))
