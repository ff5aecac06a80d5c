// The workloads for systems that run on Node.js; protocol.py is the same for Python.
import fs from "node:fs";
import readline from "node:readline";

export const DSN = process.env.BENCH_URL;
export const CONCURRENCY = Number(process.env.BENCH_CONCURRENCY ?? "100");
const FOLDER = process.env.BENCH_FOLDER;
const WARM_UP = 50;

let calls = 0;
let delays = [];

// Seconds of the monotonic clock.
const monotonic = () => Number(process.hrtime.bigint()) / 1e9;

// A handler ran; sentAt is when its job was about to be enqueued.
export function called(sentAt) {
  calls += 1;
  if (sentAt !== undefined) delays.push((monotonic() - sentAt).toFixed(6));
}

function write() {
  const buffer = Buffer.alloc(8);
  buffer.writeBigInt64LE(BigInt(calls));
  fs.writeFileSync(`${FOLDER}/${process.pid}.calls`, buffer);
  if (delays.length) fs.appendFileSync(`${FOLDER}/${process.pid}.delays`, delays.join("\n") + "\n");
  delays = [];
}

async function startSignal() {
  console.log("READY");
  const input = readline.createInterface({ input: process.stdin });
  await new Promise((resolve) => input.once("line", resolve));
  input.close();
}

const tell = (result) => console.log("RESULT " + JSON.stringify(result));

async function oneByOne(enqueue, producers, seconds) {
  for (let n = 0; n < WARM_UP; n++) await enqueue({ n });
  await startSignal();
  const begin = monotonic();
  const produce = async () => {
    let made = 0;
    while (monotonic() - begin < seconds) {
      await enqueue({ n: made });
      made += 1;
    }
    return made;
  };
  const made = await Promise.all(Array.from({ length: producers }, produce));
  tell({ jobs: made.reduce((a, b) => a + b, 0), seconds: monotonic() - begin });
}

async function bulk(enqueueMany, count, chunk) {
  const payloads = Array.from({ length: count }, (_, n) => ({ n }));
  await enqueueMany(payloads.slice(0, 100));
  await startSignal();
  const begin = monotonic();
  for (let start = 0; start < count; start += chunk) {
    await enqueueMany(payloads.slice(start, start + chunk));
  }
  tell({ jobs: count, seconds: monotonic() - begin });
}

async function paced(enqueue, count, interval) {
  await enqueue({ n: 0 });
  await startSignal();
  let due = monotonic();
  for (let n = 0; n < count; n++) {
    due += interval;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, (due - monotonic()) * 1000)));
    await enqueue({ n, t: monotonic() });
  }
  tell({ jobs: count });
}

export async function main({ setup, open, work }) {
  const [command, ...words] = process.argv.slice(2);
  const numbers = words.map(Number);
  if (command === "setup") return setup();
  if (command === "work") {
    await startSignal();
    setInterval(write, 20);
    return work();
  }
  const { enqueue, enqueueMany, close } = await open();
  if (command === "enqueue") await oneByOne(enqueue, ...numbers);
  if (command === "bulk") await bulk(enqueueMany, ...numbers);
  if (command === "paced") await paced(enqueue, ...numbers);
  await close();
}
