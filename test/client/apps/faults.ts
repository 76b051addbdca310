import { setTimeout as sleep } from 'node:timers/promises';
import { type ClientOptions, createClient, type Decision } from 'weir-client';

/** Uses one client after another while the test breaks their servers, and prints a FaultReport. */

interface Plan {
  readonly clients: Readonly<Record<string, ClientOptions>>;
  readonly calls: number;
}

/** The results of the calls. */
export interface FaultReport {
  readonly calls: number;
  readonly settled: number;
  /** Calls that settled after their deadline, beyond the delay of the event loop. */
  readonly late: number;
  readonly unhandled: readonly string[];
  readonly grownBytes: number;
  /** The number of each client's calls, by outcome. */
  readonly outcomes: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly charges: Readonly<Record<string, Charges>>;
}

/** What the calls of a client may have charged, each of them one hit. */
export interface Charges {
  /** Calls that a store has admitted: all of them are charged. */
  counted: number;
  /** Calls that may be charged: admitted by the service without its store, or without an answer. */
  uncertain: number;
  /** Calls that were sent to a second server. */
  retries: number;
}

const CONCURRENCY = 50;
const TIMEOUT_MS = 20;
const LOOP_CHECK_MS = 5;
/** Pause while a breaker is open, since calls that are not sent are very fast, and most should be sent. */
const BREAKER_PAUSE_MS = 10;
/** The resolution of timers, and of the measurement. */
const TOLERANCE_MS = 25;

const { clients: options, calls }: Plan = JSON.parse(process.argv[2] ?? '{}');

const unhandled: string[] = [];
process.on('unhandledRejection', (reason) => unhandled.push(String(reason)));
process.on('uncaughtException', (error) => unhandled.push(String(error.stack)));

/** When the event loop was delayed, and by how much. */
let lateness: { readonly endMs: number; readonly lateMs: number }[] = [];
let lastMs = performance.now();
setInterval(() => {
  const endMs = performance.now();
  const lateMs = endMs - lastMs - LOOP_CHECK_MS;
  if (lateMs > 1) lateness.push({ endMs, lateMs });
  lateness = lateness.slice(-1_000);
  lastMs = endMs;
}, LOOP_CHECK_MS).unref();

const lateSince = (startMs: number): number =>
  lateness.reduce((sum, { endMs, lateMs }) => (endMs >= startMs ? sum + lateMs : sum), 0) +
  Math.max(0, performance.now() - lastMs - LOOP_CHECK_MS);

let started = 0;
let settled = 0;
let late = 0;
const outcomes: Record<string, Record<string, number>> = {};
const charges: Record<string, Charges> = {};

const outcomeOf = ({ ok, error, source }: Decision): string =>
  error && 'kind' in error
    ? String(error.kind)
    : source === 'client_refusal'
      ? 'remembered'
      : ok
        ? 'allowed'
        : 'refused';

/** A refused call charges nothing, since its rules spend all or nothing. */
function note(own: Charges, { ok, error, source }: Decision): void {
  if (error && 'kind' in error && error.kind === 'breaker_open') return; // it was not sent
  if (error) own.uncertain++;
  else if (ok && source === 'backend') own.counted++;
  else if (ok) own.uncertain++;
}

type Limit = (user: string) => Promise<Decision>;

async function callOnce(name: string, limit: Limit): Promise<string> {
  const at = started++;
  const startMs = performance.now();
  const decision = await limit(`user-${at % 5_000}`);
  settled++;
  const overMs = performance.now() - startMs - TIMEOUT_MS - TOLERANCE_MS;
  if (overMs > 0 && overMs > lateSince(startMs)) late++;
  outcomes[name] ??= {};
  const counts = outcomes[name];
  charges[name] ??= { counted: 0, uncertain: 0, retries: 0 };
  note(charges[name], decision);
  const outcome = outcomeOf(decision);
  counts[outcome] = (counts[outcome] ?? 0) + 1;
  if (outcome === 'breaker_open') await sleep(BREAKER_PAUSE_MS);
  else if (decision.error || at % 100 === 0) await sleep(1);
  return outcome;
}

async function work(name: string, limit: Limit): Promise<void> {
  while (started < calls) await callOnce(name, limit);
}

const clients = Object.entries(options).map(([name, clientOptions]) => {
  const client = createClient({ ...clientOptions, timeoutMs: TIMEOUT_MS });
  return { name, client, limit: (user: string) => client.limit('demo', [{ api_key: user }, { charged: name }]) };
});
const workers = Array.from({ length: CONCURRENCY }, (_, at) => clients[at % clients.length]).flatMap(
  (one) => one ?? [],
);

let earlierBytes: number | undefined;
const heap = (): number => {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
};
const measuring = setInterval(() => {
  if (earlierBytes === undefined && started > calls / 2) earlierBytes = heap();
}, 50).unref();

const [first] = clients;
while (first && started < calls / 2 && (await callOnce(first.name, first.limit)) !== 'allowed'); // one is, on any machine
process.stdout.write('started\n');
await Promise.all(workers.map(({ name, limit }) => work(name, limit)));
clearInterval(measuring);
for (const { name, client } of clients) {
  const own = charges[name];
  if (own) own.retries = client.stats().retries;
  client.close();
}
await sleep(200); // unhandled rejections are reported by then
const report: FaultReport = {
  calls,
  settled,
  late,
  unhandled,
  grownBytes: heap() - (earlierBytes ?? 0),
  outcomes,
  charges,
};
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit(); // a connection to a silent server would keep the process alive
