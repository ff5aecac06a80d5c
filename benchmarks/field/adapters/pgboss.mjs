// pg-boss: batches as large as the concurrency, and the shortest polling interval that it allows.
import PgBoss from "pg-boss";
import { CONCURRENCY, DSN, called, main } from "./protocol.mjs";

async function start() {
  const boss = new PgBoss({ connectionString: DSN, schedule: false });
  boss.on("error", () => {});
  await boss.start();
  return boss;
}

await main({
  setup: async () => {
    const boss = await start();
    await boss.createQueue("noop");
    await boss.stop({ graceful: false });
  },
  open: async () => {
    const boss = await start();
    return {
      enqueue: (payload) => boss.send("noop", payload),
      enqueueMany: (payloads) => boss.insert(payloads.map((data) => ({ name: "noop", data }))),
      close: () => boss.stop({ graceful: false }),
    };
  },
  work: async () => {
    const boss = await start();
    const options = { batchSize: CONCURRENCY, pollingIntervalSeconds: 0.5 };
    await boss.work("noop", options, async (jobs) => {
      for (const job of jobs) called(job.data.t);
    });
  },
});
