import type { Monotonic } from '../../base/clock.ts';
import { hashValue } from '../../base/hashed.ts';
import type { RequestClock } from '../../base/request-clock.ts';
import type { RlsService } from '../../edge/rls/service.ts';
import { findName, MAX_UINT32, unitNumbers, type WireDescriptor, type WireRequest } from '../../edge/wire/wire.ts';
import type { Answer, Decider } from '../../engine/decide/decide.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { shownRemaining } from '../../engine/decide/shown.ts';
import { isShared } from '../../engine/holds/limits.ts';
import { readPriority } from '../../engine/holds/sharing.ts';
import type { Entry, Match } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { EventLine, LineDescriptor, RecordingHeader, RequestLineFields } from '../lab/record/format.ts';
import { matchDigest, needsValue } from '../lab/record/hashing.ts';
import { isSampled } from '../lab/record/sampling.ts';
import { search } from '../lab/stop.ts';
import type { RecordingFiles } from './files.ts';

interface RecorderOptions {
  readonly decider: Pick<Decider, 'rules' | 'overrides'>;
  readonly clock: RequestClock;
  readonly monotonicMs: Monotonic;
  /** @param head  the first lines of each file */
  readonly openFiles: (head: (part: number) => string) => RecordingFiles;
  readonly header: Omit<RecordingHeader['recording'], 'part' | 'rules'>;
  readonly maxPerSecond: number;
  /** The initial end of the recording: milliseconds since the epoch. */
  readonly untilMs: number;
  /** Undefined: values are recorded unchanged. */
  readonly hashKey: string | undefined;
  readonly onRecorded: (requests: number, dropped: number) => void;
  /** Runs a function in a later turn of the event loop. */
  readonly later: (run: () => void) => void;
}

/** The most requests that wait to be written. */
const MAX_WAITING = 65_536;
/** The most lines made in one turn: about a millisecond of work. */
const LINES_PER_TURN = 256;

/** An answered request whose line is not written yet. */
interface WaitingRequest {
  readonly request: WireRequest;
  readonly answer: Answer;
  readonly timeMs: number;
  readonly timeoutMs: number;
  /** The rules that it was matched with. */
  readonly rules: RuleTree | undefined;
  /** The overrides in force when it was answered: the same array until they change. */
  readonly overrides: readonly StandingOverride[];
}

/** An item to write in its order: a request, or a finished line. */
type Waiting = WaitingRequest | string;

/** Records requests with their answers, in the order in which they were decided. */
export class Recorder {
  readonly #options: RecorderOptions;
  readonly #files: RecordingFiles;
  #waiting: Waiting[] = [];
  #isWriting = false;
  /** The rules of the last request that was written. */
  #rules: RuleTree | undefined;
  /** The overrides when the last request was answered, and their revision. */
  #overrides: readonly StandingOverride[] = [];
  #overridesRevision = 0;
  /** The overrides of the last request that was written. */
  #overridesWritten: readonly StandingOverride[];
  /** The line of the overrides in force at the last lines written; empty: there were none. */
  #writtenOverrides = '';
  /** The new line, while lines are made that will be written together. */
  #changedOverrides: string | undefined;
  #dropped = 0;
  #untilMs: number;
  #second = Number.NaN;
  #inSecond = 0;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#untilMs = options.untilMs;
    this.#files = options.openFiles((part) => this.#head(part));
    const { decider, hashKey } = options;
    this.#rules = decider.rules();
    this.#noteOverrides();
    this.#overridesWritten = this.#overrides;
    if (this.#overrides.length > 0)
      this.#writtenOverrides = `${overridesLine(this.#overrides, this.#rules, hashKey)}\n`;
  }

  /**
   * Sets the end of the recording, if given: milliseconds since the epoch; a time in the past ends it.
   *
   * @returns  the end
   */
  record(untilMs: number | undefined): number {
    this.#untilMs = untilMs ?? this.#untilMs;
    return this.#untilMs;
  }

  /** Wraps the service so that the clock stands still while a request is decided. */
  service(inner: RlsService): RlsService {
    const { clock } = this.#options;
    return {
      shouldRateLimit: (request, caller, reply) => clock.during(() => inner.shouldRateLimit(request, caller, reply)),
    };
  }

  /**
   * Called after an answer was sent.
   *
   * @param timeoutMs  the time left until the caller's deadline
   */
  answered(request: WireRequest, answer: Answer, timeoutMs: number): void {
    const { decider, clock, header } = this.#options;
    const nowMs = clock.read();
    if (nowMs >= this.#untilMs) return;
    const rules = decider.rules();
    if (!isSampled(request, rules, header.sample)) return;
    if (this.#files.hasFailed || this.#isBeyondRate() || this.#waiting.length >= MAX_WAITING) {
      this.#dropped++;
      this.#options.onRecorded(0, 1);
      return;
    }
    this.#noteDropped();
    const timeMs = findStoreTime(answer) ?? nowMs;
    if (decider.overrides && decider.overrides.revision !== this.#overridesRevision) this.#noteOverrides();
    this.#waiting.push({ request, answer, timeMs, timeoutMs, rules, overrides: this.#overrides });
    this.#options.onRecorded(1, 0);
    this.#write();
  }

  /** Flushes the data written so far to disk. */
  flush(): void {
    this.#files.flush();
  }

  /** Writes the waiting lines, and ends the last file. */
  async close(): Promise<void> {
    this.#noteDropped();
    while (this.#waiting.length > 0) {
      await new Promise<void>((resolve) => this.#files.whenWritable(resolve));
      this.#writeLines(LINES_PER_TURN);
    }
    await this.#files.close();
  }

  #head(part: number): string {
    const { header, decider } = this.#options;
    const rules = decider.rules();
    const head: RecordingHeader = { recording: { ...header, part, rules: rules ? matchDigest(rules) : '' } };
    return `${JSON.stringify(head)}\n${this.#writtenOverrides}`;
  }

  #noteDropped(): void {
    if (this.#dropped > 0) this.#waiting.push(eventLine({ dropped: this.#dropped }));
    this.#dropped = 0;
  }

  #noteOverrides(): void {
    const { overrides } = this.#options.decider;
    this.#overridesRevision = overrides?.revision ?? 0;
    this.#overrides = Array.from(overrides?.all() ?? []);
  }

  /** A request's line, after lines for the changes since the previous request. */
  #linesOf(one: WaitingRequest): string {
    const { hashKey } = this.#options;
    let changes = '';
    if (one.rules !== this.#rules) {
      this.#rules = one.rules;
      if (one.rules) changes = `${eventLine({ rulesChanged: { digest: matchDigest(one.rules) } })}\n`;
    }
    if (one.overrides !== this.#overridesWritten) {
      this.#overridesWritten = one.overrides;
      this.#changedOverrides = `${overridesLine(one.overrides, one.rules, hashKey)}\n`;
      changes += this.#changedOverrides;
    }
    return changes + requestLine(one, hashKey);
  }

  #isBeyondRate(): boolean {
    const second = Math.floor(this.#options.monotonicMs() / 1_000);
    if (second !== this.#second) this.#inSecond = 0;
    this.#second = second;
    return ++this.#inSecond > this.#options.maxPerSecond;
  }

  /** Writes some lines in each turn, until none is left. */
  #write(): void {
    if (this.#isWriting) return;
    this.#isWriting = true;
    this.#files.whenWritable(() =>
      this.#options.later(() => {
        this.#isWriting = false;
        this.#writeLines(LINES_PER_TURN);
        if (this.#waiting.length > 0) this.#write();
      }),
    );
  }

  #writeLines(count: number): void {
    const lines = this.#waiting.slice(0, count);
    this.#waiting = this.#waiting.length > count ? this.#waiting.slice(count) : [];
    if (lines.length === 0) return;
    if (this.#files.hasFailed) {
      this.#dropped += lines.length;
      return;
    }
    const texts = lines.map((one) => (typeof one === 'string' ? one : this.#linesOf(one)));
    this.#files.write(`${texts.join('\n')}\n`);
    this.#writtenOverrides = this.#changedOverrides ?? this.#writtenOverrides;
    this.#changedOverrides = undefined;
  }
}

/** When the store charged the request, by the store's clock; undefined: the store did not report it. */
function findStoreTime({ verdicts }: Answer): number | undefined {
  for (const verdict of verdicts) {
    if (verdict.kind !== 'limited' || verdict.decision.fromLease) continue;
    if (verdict.decision.chargedAtMs !== undefined) return verdict.decision.chargedAtMs;
  }
  return undefined;
}

/** The body of `/json` for a request, with its answer. */
function requestLine(one: WaitingRequest, hashKey: string | undefined): string {
  const { request, answer, timeMs, timeoutMs, rules } = one;
  const { domain, descriptors, hits_addend } = request;
  const hash = hashKey === undefined || !rules ? undefined : { key: hashKey, rules };
  const fields: RequestLineFields = {
    time: timeMs,
    ...(Number.isFinite(timeoutMs) && { timeoutMs: Math.floor(timeoutMs) }),
    answer: {
      code: answer.overallCode,
      descriptors: answer.verdicts.map((verdict) => toLineDescriptor(verdict, hash !== undefined)),
    },
    ...(hash && { hashed: true }),
  };
  return JSON.stringify({
    domain,
    descriptors: descriptors.map((sent) =>
      toRecordedDescriptor(sent, hash ? hashedEntries(hash.rules, domain, sent.entries, hash.key) : sent.entries),
    ),
    ...(hits_addend !== 0 && { hitsAddend: hits_addend }),
    ...fields,
  });
}

const toRecordedDescriptor = (
  { limit, hits_addend, is_negative_hits }: WireDescriptor,
  entries: readonly Entry[],
): object => ({
  entries: entries.map(({ key, value }) => ({ key, value })),
  ...(limit && {
    limit: {
      requestsPerUnit: limit.requests_per_unit,
      unit: limit.unit === unitNumbers.WEEK ? limit.unit : (findName(unitNumbers, limit.unit) ?? limit.unit),
      ...(limit.unit_multiplier && { unitMultiplier: limit.unit_multiplier.value }),
    },
  }),
  ...(hits_addend && { hitsAddend: hits_addend.value }),
  ...(is_negative_hits && { isNegativeHits: true }),
});

function toLineDescriptor(verdict: Answer['verdicts'][number], isHashed: boolean): LineDescriptor {
  switch (verdict.kind) {
    case 'limited': {
      const { path, place } = verdict.rule;
      const showsValues = place === undefined; // a limit from the request: its path has plain values
      const remaining = shownRemaining(verdict);
      return { code: verdict.code, remaining, ...(!(isHashed && showsValues) && { rule: path }) };
    }
    case 'unlimited':
      return { code: 'OK', remaining: MAX_UINT32, rule: verdict.rule.path };
    default:
      return { code: 'OK', remaining: 0 };
  }
}

/** The entries, with hashes instead of the values that no rule was chosen by. */
export function hashedEntries(
  rules: RuleTree,
  domain: string,
  entries: readonly Entry[],
  hashKey: string,
): readonly Entry[] {
  const { levels, found } = search(rules, domain, { entries, requestLimit: undefined });
  return entries.map((entry, place) => {
    const at = levels[place]?.entry === entry ? place : levels.findIndex((one) => one.entry === entry); // in any order
    const { level, node } = levels[at] ?? {}; // none below the last rule
    const isKept = needsValue(level, entry, node) || statesPriority(found, at, entry.value);
    return isKept ? entry : hashedEntry(entry, hashKey);
  });
}

/** Whether the request has its priority from this entry; other values than priorities are as good as their hash. */
function statesPriority(found: Match, at: number, value: string): boolean {
  if (found.kind !== 'limited' || readPriority(value) === undefined) return false;
  const { ids = [], sharedBelow = 0 } = found.rule;
  return (
    ids.some((id) => id.as === 'priority' && id.at === at) ||
    found.limits.some(({ limit }) => isShared(limit) && at - sharedBelow === limit.thresholdAt)
  );
}

/** An empty value stays empty: `require` takes it for none. */
const hashedEntry = ({ key, value }: Entry, hashKey: string): Entry => ({
  key,
  value: value === '' ? value : hashValue(value, hashKey),
});

const eventLine = (event: EventLine): string => JSON.stringify(event);

/** The overrides that operators have set, without the operators' names and reasons. */
function overridesLine(
  overrides: Iterable<StandingOverride>,
  rules: RuleTree | undefined,
  hashKey: string | undefined,
): string {
  const all = [...overrides].filter(({ wildcard }) => !wildcard || hashKey === undefined); // no hash fits a wildcard
  const written = all.map((one) => ({
    ...one,
    entries: hashKey === undefined || !rules ? one.entries : hashedEntries(rules, one.domain, one.entries, hashKey),
    by: '',
    reason: '',
  }));
  return eventLine({ overrides: written });
}
