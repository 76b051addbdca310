import '../../helpers/realm.ts';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { RequestClock } from '../../../src/base/request-clock.ts';
import { createRlsService } from '../../../src/edge/rls/service.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { spends, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { Decider } from '../../../src/engine/decide/decide.ts';
import { Overrides, type StandingOverride } from '../../../src/engine/decide/overrides.ts';
import { createEstimates } from '../../../src/engine/ledger/estimates.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { RecordingFiles } from '../../../src/parts/record/files.ts';
import { Recorder } from '../../../src/parts/record/recorder.ts';
import { ReplayEngine } from '../../../src/parts/replay/engine.ts';
import { isSameAnswer } from '../../../src/parts/replay/figures.ts';
import { openInput, TrafficCounts } from '../../../src/parts/replay/input.ts';
import { openRecordings } from '../../../src/parts/replay/recordings.ts';
import { callerWith } from '../../helpers/caller.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { anyRequest, anyRules } from '../../helpers/explained.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { anyFeaturedRequest, anyFeaturedText, treeOf } from '../../helpers/featured.ts';
import { ledgerOf } from '../../helpers/ledger.ts';

/** The total number of recorded and replayed requests; `REPLAY_REQUESTS=1000000` for the long form. */
const REQUESTS = Number(process.env.REPLAY_REQUESTS ?? 10_000);
const REQUESTS_PER_RUN = 200;
const SEED = 25;
const MEMORY = { maxCounters: 50, maxBytes: 1_000_000 }; // few, so that some are evicted

const folder = mkdtempSync(join(tmpdir(), 'equivalence-'));

/** A request, and the events before it. */
interface Step {
  readonly request: WireRequest;
  /** Milliseconds since the previous request; negative if the clock is set back. */
  readonly advanceMs: number;
  readonly timeoutMs: number;
  readonly override: Pick<StandingOverride, 'effect' | 'entries'> | undefined;
}

const anyStepOf = (request: fc.Arbitrary<WireRequest>): fc.Arbitrary<Step> =>
  fc.record({
    request,
    advanceMs: fc.constantFrom(0, 0, 0, 1, 7, 400, 1_000, 61_000, -1, -900),
    timeoutMs: fc.constantFrom(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 20.5, 1_000),
    override: fc.oneof(
      { weight: 30, arbitrary: fc.constant(undefined) },
      {
        weight: 1,
        arbitrary: fc.record({
          effect: fc.constantFrom<StandingOverride['effect']>(
            { kind: 'block' },
            { kind: 'exempt' },
            { kind: 'limit', requestsPerUnit: 2, unit: 'SECOND' },
          ),
          entries: fc.constantFrom([{ key: 'a', value: 'x' }], [{ key: 'b', value: 'w' }]),
        }),
      },
    ),
  });

const anyRunOf = (rules: fc.Arbitrary<RuleTree>, request: fc.Arbitrary<WireRequest>) =>
  fc.record({
    rules,
    hashKey: fc.constantFrom(undefined, 'secret'),
    modes: fc.record({
      shadowMode: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
      quotaMode: fc.integer({ min: 0, max: 9 }).map((drawn) => drawn === 0),
      spend: fc.constantFrom(...spends),
    }),
    steps: fc.array(anyStepOf(request), { minLength: REQUESTS_PER_RUN, maxLength: REQUESTS_PER_RUN }),
  });

interface Run {
  readonly rules: RuleTree;
  readonly hashKey: string | undefined;
  readonly modes: Pick<Decider, 'shadowMode' | 'quotaMode' | 'spend'>;
  readonly steps: readonly Step[];
}

/** Runs a service that answers the requests, and records them in a new directory. */
async function record({ rules, modes, steps, hashKey }: Run, directory: string): Promise<number> {
  const time = fakeClock();
  const clock = new RequestClock(() => {
    time.advance(1); // so that two readings within a request would differ
    return time();
  });
  const overrides = new Overrides(clock.read, (unit) => unitMs[unit]);
  const decider: Decider = {
    ...modes,
    rules: () => rules,
    ledger: ledgerOf(createMemoryBackend(clock.read, MEMORY), { clock: clock.read }),
    counters: ownCounters(createCounterKeys('')),
    clock: clock.read,
    storeBudget: () => 5_000,
    overrides,
    estimates: createEstimates(),
  };
  let recorded = 0;
  const settings = { BACKEND_TYPE: 'memory', SPEND: '', SHADOW_MODE: false, QUOTA_MODE: false };
  const recorder = new Recorder({
    decider,
    clock,
    maxPerSecond: Number.POSITIVE_INFINITY,
    hashKey,
    untilMs: Number.POSITIVE_INFINITY,
    header: { version: 1, stream: 'test', sample: 1, hashed: hashKey !== undefined, settings },
    openFiles: (head) =>
      new RecordingFiles({
        directory,
        clock: Date.now,
        name: 'test',
        fileBytes: 2_000,
        maxBytes: 10_000_000,
        head,
        onFailure: (error) => {
          throw error;
        },
        onWritten: () => {},
        onRemoved: () => {},
      }),
    onRecorded: (requests) => {
      recorded += requests;
    },
    monotonicMs: () => 0,
    later: (run) => void setImmediate(run),
  });
  const service = recorder.service(
    createRlsService(decider, extrasOf(), {
      answered: (request, answer, { timeoutMs }) => recorder.answered(request, answer, timeoutMs),
      failed: () => {},
    }),
  );
  for (const { request, advanceMs, timeoutMs, override } of steps) {
    time.advance(advanceMs);
    if (override)
      overrides.replace([{ ...override, domain: 'd', untilMs: time() + 30_000, by: 'anna', reason: 'a test' }]);
    await service.shouldRateLimit(request, callerWith(timeoutMs), () => {});
  }
  await recorder.close();
  return recorded;
}

/** Replays the recording in the directory. @returns the number of requests with the recorded answers, and the others */
async function verify({ rules, modes }: Run, directory: string): Promise<{ same: number; others: readonly object[] }> {
  const engine = new ReplayEngine(rules, { ...modes, memory: MEMORY });
  const files = readdirSync(directory).map((name) => openInput(join(directory, name), Readable.from([])));
  const listener = { onSettings: () => {}, onSample: () => {}, onDropped: () => {}, onRules: () => {} };
  const counts = new TrafficCounts();
  let same = 0;
  const others: object[] = [];
  for await (const batch of await openRecordings(await Promise.all(files), listener, counts)) {
    for (const recorded of batch) {
      const answer = engine.answer(recorded);
      if (recorded.answer && isSameAnswer(recorded.answer, answer)) same++;
      else others.push({ recorded, answer });
    }
  }
  expect(counts).toMatchObject({ broken: 0, notes: new Set() });
  return { same, others };
}

test.each([
  ['any rules', anyRunOf(anyRules, anyRequest), 2],
  ['rules with several features', anyRunOf(anyFeaturedText.map(treeOf), anyFeaturedRequest), 3],
] as const)(
  `a replay gives the same answers as the recorded service, for %s, in ${REQUESTS} requests`,
  async (_, anyRun, part) => {
    let runs = 0;
    let all = 0;
    await fc.assert(
      fc.asyncProperty(anyRun, async (run) => {
        const directory = mkdtempSync(join(folder, `run-${runs++}-`));
        const recorded = await record(run, directory);
        const { same, others } = await verify(run, directory);
        rmSync(directory, { recursive: true });
        expect({ same, others }).toEqual({ same: recorded, others: [] });
        all += recorded;
      }),
      { seed: SEED, numRuns: Math.ceil(REQUESTS / REQUESTS_PER_RUN), endOnFailure: true },
    );
    expect(all).toBeGreaterThan(REQUESTS / part);
  },
);
