// graphile-worker: the local queue and batched completion, which its documentation names for throughput.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { CONCURRENCY, DSN, called, main } from "./protocol.mjs";

const logger = new Logger(() => () => {});

await main({
  setup: () => runMigrations({ connectionString: DSN, logger }),
  open: async () => {
    const utils = await makeWorkerUtils({ connectionString: DSN, logger });
    return {
      enqueue: (payload) => utils.addJob("noop", payload),
      enqueueMany: (payloads) =>
        utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload }))),
      close: () => utils.release(),
    };
  },
  work: () =>
    run({
      connectionString: DSN,
      logger,
      noHandleSignals: true,
      preset: {
        worker: {
          concurrentJobs: CONCURRENCY,
          maxPoolSize: 10,
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          localQueue: { size: 500 },
        },
      },
      taskList: { noop: async (payload) => called(payload.t) },
    }),
});
