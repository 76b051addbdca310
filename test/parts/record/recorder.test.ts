import '../../helpers/realm.ts';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { RequestClock } from '../../../src/base/request-clock.ts';
import { createRlsService, type Observer } from '../../../src/edge/rls/service.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Decider } from '../../../src/engine/decide/decide.ts';
import { Overrides } from '../../../src/engine/decide/overrides.ts';
import { RecordingFiles } from '../../../src/parts/record/files.ts';
import { Recorder } from '../../../src/parts/record/recorder.ts';
import { ReplayEngine } from '../../../src/parts/replay/engine.ts';
import { readRecording } from '../../../src/parts/replay/recordings.ts';
import { callerWith } from '../../helpers/caller.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { eventually } from '../../helpers/until.ts';

type RecorderOptions = ConstructorParameters<typeof Recorder>[0];

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'recorder-'));
});

const RULES = `
domain: demo
descriptors:
  - { key: user, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: user, value: admin, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: path, value: "/api/*", rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: slow, rate_limit: { unit: second, requests_per_unit: 10, algorithm: leaky_bucket, max_delay: 1s } }
`;

const SETTINGS = { BACKEND_TYPE: 'memory', SPEND: 'each', SHADOW_MODE: false, QUOTA_MODE: false };

const requestOf = (...entries: readonly (readonly [key: string, value: string])[]): WireRequest => ({
  domain: 'demo',
  descriptors: entries.map(([key, value]) => ({
    ...{ entries: [{ key, value }], limit: null, hits_addend: null, is_negative_hits: false },
  })),
  hits_addend: 0,
});

interface Setup {
  readonly sample: number;
  readonly fileBytes: number;
  readonly maxBytes: number;
  readonly options: Partial<RecorderOptions>;
}

/** A service that records to the folder; `ask` resolves after its answer. */
function recording({ sample = 1, fileBytes = 1e9, maxBytes = 1e12, options = {} }: Partial<Setup> = {}) {
  const time = fakeClock();
  const clock = new RequestClock(time);
  const rules = rulesFrom(RULES);
  const overrides = new Overrides(clock.read, (unit) => unitMs[unit]);
  const decider: Decider = {
    ...{ rules: () => rules, overrides, shadowMode: false, quotaMode: false, spend: 'each', storeBudget: () => 1_000 },
    ledger: ledgerOf(createMemoryBackend(clock.read, { maxCounters: 1_000 }), { clock: clock.read }),
    counters: ownCounters(createCounterKeys('')),
    clock: clock.read,
  };
  const counted = { recorded: 0, dropped: 0 };
  const recorder = new Recorder({
    ...{
      decider,
      clock,
      maxPerSecond: 1e9,
      hashKey: undefined,
      monotonicMs: () => 0,
      untilMs: Number.POSITIVE_INFINITY,
    },
    header: { version: 1, stream: 'stream', sample, hashed: false, settings: SETTINGS },
    openFiles: (head) =>
      new RecordingFiles({
        ...{ directory: folder, name: 'test', clock: Date.now },
        fileBytes,
        maxBytes,
        head,
        onFailure: () => {},
        onWritten: () => {},
        onRemoved: () => {},
      }),
    onRecorded: (recorded, dropped) => {
      counted.recorded += recorded;
      counted.dropped += dropped;
    },
    later: (run) => void setImmediate(run),
    ...options,
  });
  const observer: Observer = {
    answered: (request, answer, { timeoutMs }) => recorder.answered(request, answer, timeoutMs),
    failed: () => {},
  };
  const service = recorder.service(createRlsService(decider, extrasOf(), observer));
  const ask = (request: WireRequest, timeoutMs = Number.POSITIVE_INFINITY): PromiseLike<void> =>
    service.shouldRateLimit(request, callerWith(timeoutMs), () => {});
  return { time, rules, overrides, recorder, counted, ask };
}

const files = (): readonly string[] => readdirSync(folder).sort();
/** The octets of a file; 0 as well if it does not exist, or no more. */
const sizeOf = (name: string): number => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
const nameOf = (process: string, part: number): string => `weir-${process}-${String(part).padStart(6, '0')}.ndjson.gz`;
const textsOf = (name: string): readonly string[] =>
  gunzipSync(readFileSync(join(folder, name)))
    .toString()
    .trimEnd()
    .split('\n');
const linesOf = (name = files()[0] ?? '') => textsOf(name).map((line) => JSON.parse(line));

test('a line is the body of /json with the time and the answer, after a head that describes the recording', async () => {
  const { recorder, ask, time, counted } = recording();
  await ask(requestOf(['user', 'anna'], ['other', 'x']));
  time.advance(5);
  await ask({
    domain: 'demo',
    descriptors: [
      {
        entries: [{ key: 'user', value: 'bert' }],
        limit: { requests_per_unit: 1, unit: 7, unit_multiplier: { value: 2 } },
        hits_addend: { value: 3 },
        is_negative_hits: true,
      },
    ],
    hits_addend: 4,
  });
  await recorder.close();
  expect(files()).toEqual(['weir-test-000001.ndjson.gz']);
  expect(linesOf()).toEqual([
    {
      recording: {
        ...{ version: 1, stream: 'stream', part: 1, sample: 1, hashed: false, settings: SETTINGS },
        rules: expect.any(String),
      },
    },
    {
      domain: 'demo',
      descriptors: [{ entries: [{ key: 'user', value: 'anna' }] }, { entries: [{ key: 'other', value: 'x' }] }],
      time: 1_700_000_000_000,
      answer: {
        code: 'OK',
        descriptors: [
          { code: 'OK', remaining: 1, rule: 'demo.user' },
          { code: 'OK', remaining: 0 },
        ],
      },
    },
    {
      domain: 'demo',
      descriptors: [
        {
          entries: [{ key: 'user', value: 'bert' }],
          limit: { requestsPerUnit: 1, unit: 7, unitMultiplier: 2 },
          ...{ hitsAddend: 3, isNegativeHits: true },
        },
      ],
      hitsAddend: 4,
      time: 1_700_000_000_005,
      answer: { code: 'OK', descriptors: [{ code: 'OK', remaining: 1, rule: 'demo.user_bert' }] },
    },
  ]);
  expect(counted).toEqual({ recorded: 2, dropped: 0 });
});

test('the deadline of a caller is recorded, since a request is not delayed beyond it', async () => {
  const { recorder, ask, rules } = recording();
  for (let times = 0; times < 3; times++) await ask(requestOf(['slow', 'x']), 150.7);
  await recorder.close();
  const readLines = readRecording({ onSettings() {}, onSample() {}, onDropped() {}, onRules() {} });
  const read = readLines(textsOf(files()[0] ?? '')).flatMap((one) => (typeof one === 'object' ? [one] : []));
  expect(read.map(({ timeoutMs, answer }) => [timeoutMs, answer?.code])).toEqual([
    [150, 'OK'],
    [150, 'OK'],
    [150, 'OVER_LIMIT'],
  ]);
  const engine = new ReplayEngine(rules, {
    ...{ shadowMode: false, quotaMode: false, spend: 'each', memory: { maxCounters: 10, maxBytes: 1e9 } },
  });
  expect(read.map((one) => engine.answer(one).code)).toEqual(['OK', 'OK', 'OVER_LIMIT']);
});

test("each file begins with the operators' overrides, without names and reasons", async () => {
  const { recorder, ask, overrides, time } = recording({ fileBytes: 1 });
  const override = { domain: 'demo', entries: [{ key: 'user', value: 'anna' }], effect: { kind: 'block' } } as const;
  const askUntilWritten = async (part: number): Promise<void> => {
    await ask(requestOf(['user', 'anna']));
    await eventually(() => sizeOf(nameOf('test', part)) > 0); // so that the next request begins another file
  };
  await askUntilWritten(1);
  overrides.replace([{ ...override, untilMs: time() + 1_000, by: 'carla', reason: 'abuse' }]);
  for (let part = 2; part <= 4; part++) await askUntilWritten(part);
  await recorder.close();
  const written = { overrides: [{ ...override, untilMs: time() + 1_000, by: '', reason: '' }] };
  const all = files().map((name) => linesOf(name));
  expect(all.flat().filter((line) => 'overrides' in line)[0]).toEqual(written);
  expect(all.at(-1)?.slice(0, 2)).toEqual([{ recording: expect.objectContaining({ part: all.length }) }, written]);
  expect(all.length).toBeGreaterThan(1);
});

test('the oldest files are removed before all recordings exceed RECORD_MAX_BYTES', async () => {
  const { recorder, ask } = recording({ fileBytes: 4_000, maxBytes: 40_000 });
  const ZLIB_BYTES = 16_384; // zlib writes its buffered data later
  const bytes = (): number => files().reduce((sum, name) => sum + sizeOf(name), 0);
  let largest = 0;
  for (let times = 0; times < 20_000; times++) {
    await ask(requestOf(['user', `user-${Math.imul(times, 0x9e3779b1)}`]));
    if (times % 500 > 0) continue;
    await new Promise((resolve) => setTimeout(resolve, 5));
    largest = Math.max(largest, bytes());
    await eventually(() => bytes() < 40_000 + 1.5 * ZLIB_BYTES); // files are removed in the time that a busy disk takes
  }
  await recorder.close();
  expect(files()).not.toContain('weir-test-000001.ndjson.gz');
  expect(files().length).toBeGreaterThan(1);
  expect(largest).toBeLessThan(40_000 + 3 * ZLIB_BYTES);
});

describe('files of several processes', () => {
  const FILE_BYTES = 1_000;
  const filesOf = (name: string): RecordingFiles =>
    new RecordingFiles({
      ...{ directory: folder, name, clock: Date.now, fileBytes: FILE_BYTES, maxBytes: 20_000, head: () => '{}\n' },
      onFailure: (error) => {
        throw error;
      },
      onWritten: () => {},
      onRemoved: () => {},
    });

  test('a file that another process has open is kept, regardless of its age', async () => {
    const [idle, busy] = [filesOf('idle'), filesOf('busy')];
    idle.write('{"first":1}\n');
    await eventually(() => files().length > 0);
    const path = join(folder, 'weir-idle-000001.ndjson.gz');
    utimesSync(path, 1, 1);
    await eventually(() => {
      idle.flush(); // does nothing until the stream knows that its file is open
      return statSync(path).mtimeMs > 2_000;
    });
    for (let part = 1; part <= 40; part++) {
      busy.write(`${randomBytes(1_000).toString('hex')}\n`);
      for (const one of [busy, idle]) one.flush();
      await eventually(() => sizeOf(nameOf('busy', part)) >= FILE_BYTES); // so that the next one begins another file
    }
    await busy.close();
    idle.write('{"second":1}\n');
    await idle.close();
    expect(files()).not.toContain('weir-busy-000001.ndjson.gz');
    expect(textsOf('weir-idle-000001.ndjson.gz')).toEqual(['{}', '{"first":1}', '{"second":1}']);
  });

  test('a new file is started if the open one was removed', async () => {
    const one = filesOf('one');
    one.write('{"first":1}\n');
    await eventually(() => files().length > 0);
    rmSync(join(folder, 'weir-one-000001.ndjson.gz'));
    await eventually(() => {
      one.flush(); // does nothing until the stream knows that its file is open
      one.write('{"second":1}\n');
      return files().length > 0;
    });
    await one.close();
    expect(textsOf('weir-one-000002.ndjson.gz')).toContain('{"second":1}');
  });

  test('recordings are readable only by their owner', async () => {
    const one = filesOf('one');
    one.write('{"first":1}\n');
    await one.close();
    expect(statSync(join(folder, files()[0] ?? '')).mode & 0o777).toBe(0o600);
  });
});

test('requests beyond the rate are counted, and their number is recorded where they are missing', async () => {
  let nowMs = 0;
  const { recorder, ask, counted } = recording({ options: { maxPerSecond: 2, monotonicMs: () => nowMs } });
  for (let times = 0; times < 5; times++) await ask(requestOf(['user', 'anna']));
  nowMs += 1_000;
  await ask(requestOf(['user', 'bert']));
  await recorder.close();
  expect(counted).toEqual({ recorded: 3, dropped: 3 });
  const kinds = linesOf().map((line) => line.dropped ?? line.descriptors?.[0].entries[0].value ?? 'head');
  expect(kinds).toEqual(['head', 'anna', 'anna', 3, 'bert']);
});

test('requests that wait for the disk are bounded, and the rest is counted as dropped', async () => {
  const { recorder, ask, counted } = recording({ options: { later: () => {} } });
  for (let times = 0; times < 66_000; times++) await ask(requestOf(['user', 'anna']));
  expect(counted).toEqual({ recorded: 65_536, dropped: 66_000 - 65_536 });
  await recorder.close();
});

test('a sample has all requests of a counter or none, the same counters in every process', async () => {
  const recorded = new Map<string, number>();
  const { recorder, ask } = recording({ sample: 0.3 });
  for (let times = 0; times < 6_000; times++) await ask(requestOf(['user', `user-${times % 1_000}`]));
  await recorder.close();
  for (const { descriptors } of linesOf().slice(1)) {
    const name = descriptors[0].entries[0].value;
    recorded.set(name, (recorded.get(name) ?? 0) + 1);
  }
  expect(new Set(recorded.values())).toEqual(new Set([6]));
  expect(recorded.size).toBeGreaterThan(250);
  expect(recorded.size).toBeLessThan(350);
});

test('with a key, values that no rule names are recorded as hashes, the same for the same value', async () => {
  const { recorder, ask } = recording({ options: { hashKey: 'secret' } });
  await ask(requestOf(['user', 'anna'], ['user', 'admin'], ['path', '/api/x'], ['other', 'anna']));
  await ask(requestOf(['user', 'anna'], ['user', 'bert']));
  await ask(requestOf(['user', '']));
  await recorder.close();
  const valuesOf = (line: ReturnType<typeof linesOf>[number]) =>
    line.descriptors.map((one: { readonly entries: readonly { readonly value: string }[] }) => one.entries[0]?.value);
  const [, first, second, third] = linesOf();
  const [anna, admin, path, other] = valuesOf(first);
  expect([admin, path]).toEqual(['admin', '/api/x']);
  expect(anna).toMatch(/^#[\w-]{16}$/);
  expect(other).toBe(anna);
  expect(valuesOf(second)).toEqual([anna, expect.not.stringContaining('bert')]);
  expect(valuesOf(second)[1]).not.toBe(anna);
  expect(valuesOf(third)).toEqual(['']); // no key of `require` is there
  expect(first).toMatchObject({ hashed: true, answer: { descriptors: [{ rule: 'demo.user' }, {}, {}, {}] } });
});

test('with a key, a limit sent in a request is recorded without its rule, whose path would show values', async () => {
  const { recorder, ask } = recording({ options: { hashKey: 'secret' } });
  const limit = { requests_per_unit: 1, unit: 7, unit_multiplier: null };
  const request = requestOf(['user', 'anna']);
  await ask({ ...request, descriptors: request.descriptors.map((one) => ({ ...one, limit })) });
  await recorder.close();
  const [, line] = linesOf();
  expect(line).toMatchObject({ hashed: true, answer: { descriptors: [{ code: 'OK', remaining: 0 }] } });
  expect(JSON.stringify(line)).not.toContain('anna');
});

/** A service that records to a folder that does not exist, after the request that shows it. */
async function failedRecording(clock = Date.now) {
  const failures: string[] = [];
  const started = recording({
    options: {
      openFiles: (head) =>
        new RecordingFiles({
          ...{ directory: join(folder, 'missing'), name: 'test', clock, fileBytes: 1e6, maxBytes: 1e9, head },
          onFailure: ({ message }) => failures.push(message),
          onWritten: () => failures.push('written'),
          onRemoved: () => {},
        }),
    },
  });
  await started.ask(requestOf(['user', 'anna']));
  await eventually(() => failures.length > 0);
  return { ...started, failures };
}

test('a disk that cannot be written only ends the recording', async () => {
  const { recorder, ask, counted, failures } = await failedRecording();
  await ask(requestOf(['user', 'anna']));
  await recorder.close();
  expect(failures).toEqual([expect.stringContaining('ENOENT')]);
  expect(counted).toEqual({ recorded: 1, dropped: 1 });
});

test('recording goes on when the disk can be written again, and says how many requests are missing', async () => {
  const clock = fakeClock();
  const { recorder, ask, counted, failures } = await failedRecording(clock);
  await ask(requestOf(['user', 'anna']));
  mkdirSync(join(folder, 'missing'));
  clock.advance(5_000);
  await ask(requestOf(['user', 'bob']));
  await eventually(() => {
    recorder.flush();
    return failures.includes('written');
  });
  await recorder.close();
  const [name = ''] = readdirSync(join(folder, 'missing'));
  const lines = gunzipSync(readFileSync(join(folder, 'missing', name))).toString();
  expect(lines).toContain('{"dropped":1}');
  expect(lines).toContain('bob');
  expect(counted).toEqual({ recorded: 2, dropped: 1 });
});

test('after a failure of the disk, overrides are no longer recorded', async () => {
  const override = { domain: 'demo', entries: [{ key: 'user', value: 'anna' }], effect: { kind: 'block' } } as const;
  const { recorder, ask, overrides, time } = await failedRecording();
  const all = jest.spyOn(overrides, 'all');
  overrides.replace([{ ...override, untilMs: time() + 1, by: '', reason: '' }]);
  await ask(requestOf(['user', 'anna']));
  await recorder.close();
  expect(all).not.toHaveBeenCalled();
});
