import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { referenceSettings } from '../../proof/bench/subjects.ts';
import recorded from '../fixtures/reference-settings.json' with { type: 'json' };
import { accepts, freePort, type Running, start } from '../helpers/process.ts';
import { type Redis, startRedis } from '../helpers/redis.ts';
import { referenceProgram } from '../helpers/reference.ts';
import { isOpen, MAIN } from '../helpers/weir.ts';
import { differences, isAddress, referenceCases } from './reference-values.ts';

const FIXTURE = new URL('../fixtures/reference-settings.json', import.meta.url);

type ReferenceCase = (typeof referenceCases)[number];

/** Starts at the same time. */
const STARTS = 4;
/** Further time in which a program ends that listens on some ports, and then fails. */
const SETTLE_MS = 150;

let redis: Redis;
let folder: string;
beforeAll(async () => {
  redis = await startRedis();
  folder = mkdtempSync(join(tmpdir(), 'settings-'));
  mkdirSync(join(folder, 'config'));
  const rule = { key: 'k', rate_limit: { unit: 'day', requests_per_unit: 1 } };
  writeFileSync(join(folder, 'config/rules.yaml'), JSON.stringify({ domain: 'd', descriptors: [rule] }));
});
afterAll(async () => {
  await redis.stop();
  rmSync(folder, { recursive: true });
});

type Ports = readonly [grpc: number, http: number, debug: number, free: number];

interface Program {
  readonly command: readonly string[];
  /** Whether its output says that it is ready; absent: it says nothing. */
  readonly isReady?: (output: string) => boolean;
}

/** Whether a program with these settings is ready, listens on those ports that they do not change, and does not end. */
async function starts(
  { command: [program = '', ...args], isReady }: Program,
  { name, env }: ReferenceCase,
  [grpcPort, httpPort, debug, free]: Ports,
): Promise<boolean> {
  const fill = (text: string) =>
    text.replaceAll('$REDIS', String(redis.port)).replaceAll('$FREE', String(free)).replaceAll('$FOLDER', folder);
  const settings = {
    ...(await referenceSettings({ folder, redisUrl: redis.url, grpcPort, httpPort })),
    DEBUG_PORT: String(debug),
    USE_STATSD: 'false',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    ...Object.fromEntries(Object.entries(env).map(([variable, value]) => [variable, fill(value)])),
  };
  for (const socket of Object.values(env)) if (socket.endsWith('.sock')) rmSync(fill(socket), { force: true }); // a killed one leaves it
  const running = await start(program, args, { env: settings });
  const ports = [
    ...(/^(HOST|PORT)$/.test(name) ? [] : [httpPort]),
    ...(/^GRPC_(HOST|PORT|UDS)$/.test(name) ? [] : [grpcPort]),
  ];
  try {
    await running.waitFor(
      async (output) => (isReady?.(output) ?? true) && (await Promise.all(ports.map(accepts))).every(Boolean),
    );
    return await staysFor(SETTLE_MS, running);
  } catch {
    return false; // it has ended
  } finally {
    await running.stop('SIGKILL');
  }
}

const staysFor = (ms: number, { exited }: Running): Promise<boolean> =>
  Promise.race([exited.then(() => false), sleep(ms, true)]);

/** A program that stops is started again: another one may have had one of its ports. */
async function startedCases(program: Program, cases: readonly ReferenceCase[]): Promise<readonly string[]> {
  const left = [...cases];
  const started: string[] = [];
  const startInTurn = async (): Promise<void> => {
    const ports: Ports = [await freePort(), await freePort(), await freePort(), await freePort()];
    for (let next = left.pop(); next; next = left.pop())
      if ((await starts(program, next, ports)) || (await starts(program, next, ports)))
        started.push(`${next.name}=${next.value}`);
  };
  await Promise.all(Array.from({ length: STARTS }, startInTurn));
  return started.sort();
}

const recordedStarts = (isCompared: (name: string) => boolean): readonly string[] =>
  Object.entries(recorded)
    .flatMap(([name, { starts }]) => (isCompared(name) ? starts.map((value) => `${name}=${value}`) : []))
    .sort();

/** The cases of settings that a version of envoyproxy/ratelimit has: Go keeps their names in the program. */
function casesOf(program: string): readonly ReferenceCase[] {
  const code = readFileSync(program);
  const names = new Set(referenceCases.map(({ name }) => name).filter((name) => code.includes(name)));
  return referenceCases.filter(({ name }) => names.has(name));
}

/** Records what started, for another version of envoyproxy/ratelimit; settings that it does not have stay as recorded. */
function record(started: readonly string[], cases: readonly ReferenceCase[]): void {
  const names = [...new Set(cases.map(({ name }) => name))];
  const valuesOf = (name: string, isStarted: boolean) =>
    cases
      .filter((one) => one.name === name && started.includes(`${name}=${one.value}`) === isStarted)
      .map(({ value }) => value)
      .sort();
  const found = names.map((name) => [name, { starts: valuesOf(name, true), stops: valuesOf(name, false) }]);
  const all = Object.entries({ ...recorded, ...Object.fromEntries(found) }).sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(FIXTURE, `${JSON.stringify(Object.fromEntries(all), undefined, 1)}\n`);
}

test('envoyproxy/ratelimit starts with the recorded values only, of the settings that its version has', async () => {
  const program = await referenceProgram();
  const cases = casesOf(program);
  const started = await startedCases({ command: [program] }, cases);
  if (process.env.UPDATE_GOLDEN) record(started, cases);
  else expect(started).toEqual(recordedStarts((setting) => cases.some(({ name }) => name === setting)));
});

test('Weir listens at the hosts at which envoyproxy/ratelimit does, or the migration page says so', async () => {
  const cases = referenceCases.filter(({ name }) => isAddress(name));
  const started = await startedCases({ command: [process.execPath, MAIN, 'serve'], isReady: isOpen }, cases);
  const different = Object.values(differences).flatMap((settings) =>
    Object.entries(settings).flatMap(([name, values]) => values.map((value) => `${name}=${value}`)),
  );
  const expected = cases.filter(({ name, value }) => {
    const isRecorded = recordedStarts(isAddress).includes(`${name}=${value}`);
    return isRecorded !== different.includes(`${name}=${value}`);
  });
  expect(started).toEqual(expected.map(({ name, value }) => `${name}=${value}`).sort());
});
