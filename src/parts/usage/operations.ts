import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import { fields, oneOf, type ValueOf, whole } from '../../base/shape.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { unitMs } from '../../engine/algorithms/limit.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import {
  type ChangeBody,
  changeBody,
  onlyDomain,
  onlyRule,
  pageSize,
  refuseHashes,
  text,
  time,
} from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { OpenOperatorPart, OperatorPart } from '../../serve/control/part.ts';
import type { ProcessContext } from '../../serve/parts/process-context.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ForgottenUsage, UsageAnswer } from './answers.ts';
import { type UsageQuery, type UsageStore, type UsageSum, usageGroups, usagePeriods } from './usage-store.ts';

/** More would not fit into the memory of this process together with the sums of a report. */
const MAX_ROWS = 100_000;
const DEFAULT_ROWS = 1_000;
/** Parts in which rows can be read. */
const MAX_PARTS = 1_000;
/** Reports that one client may wait for. */
const MAX_REPORTS = 4;
/** Intervals of collection after which usage that was counted is kept. */
const MAX_INTERVALS = 2;

interface UsageOptions extends AdminOptions {
  /** Undefined: this instance keeps no usage. */
  readonly usage: Pick<UsageStore, 'report' | 'forget'> | undefined;
}

/** Keeps usage, if the settings ask for it, and adds the operations on it. */
export const openUsageOperations: OpenOperatorPart = (options, settings, context) => {
  const { usage } = settings;
  if (!usage) return { operations: usageOperations({ ...options, usage: undefined }) };
  return keepUsage(usage, { ...options, isInMemory: settings.counters.store.kind === 'memory' }, context);
};

async function keepUsage(
  settings: NonNullable<Settings['usage']>,
  options: AdminOptions & { readonly isInMemory: boolean },
  context: ProcessContext,
): Promise<OperatorPart> {
  const { store, close } = await (await import('./open.ts')).openUsage(settings, options, context);
  return { operations: usageOperations({ ...options, usage: store }), close };
}

/** Operations on what customers have used. */
export function usageOperations(options: UsageOptions): readonly ApiOperation[] {
  const turns = new Turns();
  return [
    operation('GET /api/v1/usage', {
      summary: 'admitted hits by domain, rule and key (USAGE_DIR, USAGE_URL)',
      need: 'read',
      domains: 'named',
      query: usageParameters,
      answers:
        'Sums of admitted hits, less those given back: by day or hour if asked for, then the highest first. `hits` is their total, and `spent` that of budgets, whose rows have a currency: in billionths of it. `more` counts the rows beyond `count`, and `next` is `after` of their page; pages are exact if `to` is over. Values are hashes if HASH_KEYS was set when they were collected. Reports are made one after the other; status 429: this token waits for 4 already.',
      answer: ({ client, query, request }) =>
        turns.take(client.name, request, (isWanted) =>
          reportUsage({ store: options.usage, clock: options.clock, isWanted }, query),
        ),
    }),
    operation('POST /api/v1/usage/forget', {
      summary: 'deletes the usage of a descriptor, and of those that begin with it',
      need: 'operate',
      domains: 'named',
      body: changeBody,
      answers: '`rows`: how many were deleted. What was counted in the last `againAfterMs` may be kept afterwards.',
      answer: ({ client, body }) => forget(options, client.name, body),
    }),
  ];
}

/** Makes reports one after the other, so that several take no more memory than one. */
class Turns {
  #last: Promise<unknown> = Promise.resolve();
  readonly #waiting = new Map<string, number>();

  /** @throws ApiProblem  429 */
  async take<T>(
    name: string,
    { socket }: Pick<IncomingMessage, 'socket'>,
    report: (isWanted: () => boolean) => Promise<T>,
  ): Promise<T> {
    const waiting = this.#waiting.get(name) ?? 0;
    if (waiting >= MAX_REPORTS)
      throw new ApiProblem(429, `'${name}' waits for ${waiting} reports of usage: ask again when one has arrived`, {
        headers: { 'retry-after': '5' },
      });
    this.#waiting.set(name, waiting + 1);
    const own = this.#last.then(() => {
      if (socket.destroyed) throw new ApiProblem(503, 'the client has gone');
      return report(() => !socket.destroyed);
    });
    this.#last = own.catch(() => {});
    try {
      return await own;
    } finally {
      const left = (this.#waiting.get(name) ?? 1) - 1;
      if (left > 0) this.#waiting.set(name, left);
      else this.#waiting.delete(name);
    }
  }
}

const usageParameters = fields(
  {},
  {
    from: { ...time, description: 'RFC 3339, rounded down to an hour; default: the first of this month in UTC' },
    to: { ...time, description: 'RFC 3339, rounded up to an hour; default: now' },
    by: { ...oneOf(...usageGroups), description: 'domain, rule, or key (the default)' },
    per: { ...oneOf(...usagePeriods), description: 'total (the default), day in UTC, or hour' },
    domain: onlyDomain,
    rule: onlyRule,
    key: { ...text, description: 'one key, as reports show it: `user=alice`' },
    count: pageSize(MAX_ROWS),
    after: { ...text, description: '`next` of the previous page: only the rows after it, and their totals' },
    part: { ...whole, minimum: 0, maximum: MAX_PARTS - 1, description: 'with parts: which of them' },
    parts: {
      ...whole,
      minimum: 1,
      maximum: MAX_PARTS,
      description:
        'in how many parts of about equal size to read rows that are too many for one answer; totals are those of the part',
    },
  },
);
type UsageParameters = ValueOf<typeof usageParameters>;

interface ReportSources {
  readonly store: Pick<UsageStore, 'report'> | undefined;
  readonly clock: Clock;
  /** Whether the client still waits for it. */
  readonly isWanted?: () => boolean;
}

/** @throws ApiProblem */
export async function reportUsage(
  { store, clock, isWanted }: ReportSources,
  asked: { readonly [P in keyof UsageParameters]: UsageParameters[P] | undefined },
): Promise<UsageAnswer> {
  if (!store) throw noUsage();
  const nowMs = clock();
  const { from, to, by = 'key', per = 'total', count = DEFAULT_ROWS, ...only } = asked;
  const { part = 0, parts = 1 } = only;
  if (part >= parts) throw new ApiProblem(400, `part must be below parts, got ${part} of ${parts}`);
  const fromHour = Math.floor((from === undefined ? startOfMonth(nowMs) : readTime('from', from)) / unitMs.HOUR);
  const toHour = Math.ceil((to === undefined ? nowMs : readTime('to', to)) / unitMs.HOUR);
  const after = only.after === undefined ? undefined : readCursor(only.after);
  const query: UsageQuery = { ...only, after, by, per, count, fromHour, toHour };
  const { rows, more, hits, spent } = await store.report(query, isWanted).catch(refuseFailed);
  const last = rows.at(-1);
  return {
    from: rfc3339(fromHour * unitMs.HOUR),
    to: rfc3339(toHour * unitMs.HOUR),
    by,
    per,
    hits,
    ...(Object.keys(spent).length > 0 && { spent }),
    more,
    ...(more > 0 && last && { next: cursorOf(last) }),
    rows: rows.map((row) => ({
      domain: row.domain,
      ...(by !== 'domain' && { rule: row.rule }),
      ...(by === 'key' && { key: row.key }),
      ...(row.hour !== undefined && { at: rfc3339(row.hour * unitMs.HOUR) }),
      hits: row.hits,
      ...(row.currency !== undefined && { currency: row.currency }),
    })),
  };
}

/** The place of a row in its report. */
const cursorOf = ({ hour = 0, hits, domain, rule, key, currency = '' }: UsageSum): string =>
  Buffer.from(JSON.stringify([hour, hits, domain, rule, key, currency])).toString('base64url');

/** @throws ApiProblem  400 */
function readCursor(written: string): UsageSum {
  const [hour, hits, ...names] = parseCursor(written);
  const [domain, rule, key, currency] = names.filter((name) => typeof name === 'string');
  if (typeof hour !== 'number' || typeof hits !== 'number' || domain === undefined || currency === undefined)
    throw new ApiProblem(400, 'the query is not valid: after must be the `next` of a previous page');
  return { hour, hits, domain, rule: rule ?? '', key: key ?? '', currency: currency === '' ? undefined : currency };
}

function parseCursor(written: string): readonly unknown[] {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(written, 'base64url').toString());
    return Array.isArray(parsed) ? parsed : [];
  } catch {
    return [];
  }
}

function refuseFailed(error: Error): never {
  throw new ApiProblem(503, `usage cannot be read or written: ${error.message}`);
}

const noUsage = (): ApiProblem => new ApiProblem(404, 'this instance keeps no usage: set USAGE_DIR or USAGE_URL');

async function forget(
  { usage: store, audit, hash, settings }: UsageOptions,
  who: string,
  { domain: name, descriptor: entries, reason: why }: ChangeBody,
): Promise<ForgottenUsage> {
  if (!store) throw noUsage();
  refuseHashes(entries, hash);
  const key = descriptorText(shownEntries(entries, shownBy(true, hash)));
  const what = { domain: name, descriptor: key };
  const change = { who, change: 'forget', reason: why, what, before: null, after: null };
  const rows = await audit.change(change, () => store.forget(name, key).catch(refuseFailed));
  return { ...what, rows, againAfterMs: MAX_INTERVALS * (settings.usage?.intervalMs ?? 0) };
}

/** @throws ApiProblem  400 */
function readTime(name: string, written: string): number {
  const atMs = parseTime(written);
  if (atMs === undefined)
    throw new ApiProblem(400, `${name} must be a time such as 2026-11-01T00:00Z, got '${written}'`);
  return atMs;
}

const startOfMonth = (nowMs: number): number => parseTime(`${rfc3339(nowMs).slice(0, 7)}-01T00:00Z`) ?? nowMs;
