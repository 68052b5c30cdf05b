// A BullMQ flow of trivial members on Redis: how long from the first member to the parent's start.
//
//     node flow.mjs MEMBERS      runs the workers and a flow, prints one JSON object
//
// FLOW_REDIS_PORT names the server, on loopback.

import { createRequire } from "node:module";

// The packages are in the folder that this is run from, not beside this file.
const require = createRequire(`${process.cwd()}/`);
const { FlowProducer, Worker } = require("bullmq");

const members = Number(process.argv[2]);
const connection = { host: "127.0.0.1", port: Number(process.env.FLOW_REDIS_PORT) };
const clock = () => Number(process.hrtime.bigint()) / 1e9;

let first;
let resolved = 0;
const ended = Promise.withResolvers ? Promise.withResolvers() : (() => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
})();

const workers = [
  new Worker("members", async () => {
    first ??= clock();
    resolved += 1;
  }, { connection, concurrency: 200 }),
  new Worker("parents", async () => ended.resolve(clock()), { connection }),
];
for (const worker of workers) worker.on("error", (error) => ended.reject(error));
await Promise.all(workers.map((worker) => worker.waitUntilReady()));

const producer = new FlowProducer({ connection });
await producer.add({
  name: "parent",
  queueName: "parents",
  children: Array.from({ length: members }, (_, index) => ({
    name: "member",
    queueName: "members",
    data: { index },
    opts: { removeOnComplete: true },
  })),
});
const timer = setTimeout(() => ended.reject(new Error("the parent was not started in 120 s")), 120_000);
const called = await ended.promise;
clearTimeout(timer);
if (resolved !== members) throw new Error(`the parent started after ${resolved} of ${members}`);
console.log(JSON.stringify({ members, seconds: called - first }));
process.exit(0);
