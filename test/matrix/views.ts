import { responseToJson } from '../../src/edge/wire/json.ts';
import { unitMs } from '../../src/engine/algorithms/limit.ts';
import type { GrpcClient } from '../helpers/grpc-client.ts';
import { type Ask, jsonOf, wireOf } from './doors.ts';
import { DOMAIN, hasId, type Kind, pathOf } from './kinds.ts';

/** What all views say of a limit that is used up, in the same words as those of the table. */
export interface Views {
  /** The code of the request, and that of its first descriptor. */
  readonly codes: readonly [number, number];
  readonly limit: number;
  readonly remaining: number;
  /** Why it would have refused and did not, as dynamic metadata says it. */
  readonly spared: string | undefined;
  readonly resets: Wait;
  readonly headers: {
    readonly limit: string;
    readonly remaining: string;
    readonly resets: Wait;
    readonly retryAfter: Wait | undefined;
    readonly policy: string | undefined;
    readonly current: string | undefined;
    readonly wouldRefuse: string | undefined;
  };
  readonly explained: {
    readonly status: number;
    readonly algorithm: string;
    readonly code: string;
    readonly passesIn: Wait | undefined;
    readonly why: string;
    readonly spared: string | undefined;
    readonly arithmetic: string;
  };
  /** The end of the arithmetic of the last refusal; undefined if there is none. */
  readonly refusal: string | undefined;
  readonly counter: { readonly algorithm: string; readonly used: number; readonly remaining: number };
  readonly metrics: { readonly algorithm: string; readonly within: number };
}

/** A duration in words: the wait of a kind. */
export type Wait = Kind['wait'];

function toWait(seconds: number): Wait {
  if (seconds <= 120) return 'minute'; // slots without an id are kept for up to two ttls
  return seconds * 1_000 <= 2 * unitMs.DAY ? 'day' : 'never';
}

/** Reads the admin API and the metrics of a running service. */
export type Read = (path: string, body?: unknown) => Promise<unknown>;

interface Spared {
  readonly reason: string;
}

interface Explained {
  readonly status: number;
  readonly decision: {
    readonly why: string;
    readonly passesInMs: number | null;
    readonly wouldRefuse?: readonly Spared[];
  };
  readonly descriptors: readonly {
    readonly limits: readonly { readonly algorithm: string; readonly code: string; readonly arithmetic: string }[];
  }[];
}

interface Refusals {
  readonly refusals: readonly { readonly descriptors: readonly { readonly arithmetic?: string }[] }[];
}

interface Counters {
  readonly counters: readonly { readonly algorithm: string; readonly used: number; readonly remaining: number }[];
}

/** Asks once more, and reads what each view says of it. */
export async function readViews(ask: Ask, client: GrpcClient, read: Read): Promise<Omit<Views, 'metrics'>> {
  const { kind, value } = ask;
  const answer = await client.send(wireOf(ask));
  const [status] = answer.statuses;
  if (!status) throw new Error('there is one status per descriptor');
  const metadata = responseToJson(answer).dynamicMetadata as { weir?: { would_refuse?: readonly Spared[] } };
  const headers = new Map(answer.response_headers_to_add?.map((header) => [header.key, header.value]));
  const retryAfter = headers.get('Retry-After');
  const explained = (await read('/api/v1/explain', jsonOf(ask))) as Explained;
  const [shown] = explained.descriptors[0]?.limits ?? [];
  const rule = `rule=${encodeURIComponent(kind.isStated ? `${DOMAIN}.${kind.name}_${value}` : pathOf(kind))}`;
  const { refusals } = (await read(`/api/v1/refusals?domain=${DOMAIN}&${rule}&count=1`)) as Refusals;
  const entries = [
    `${kind.name}=${value}`,
    ...(hasId(kind) ? ['id=other'] : []),
    ...(kind.isShared ? ['tenant=a'] : []),
  ];
  const descriptor = `descriptor=${encodeURIComponent(entries.join(','))}`;
  const { counters } = (await read(`/api/v1/counters?domain=${DOMAIN}&${descriptor}`)) as Counters;
  const own = counters[0];
  const { passesInMs } = explained.decision;
  return {
    codes: [answer.overall_code, status.code],
    limit: status.current_limit?.requests_per_unit ?? 0,
    remaining: status.limit_remaining,
    spared: metadata.weir?.would_refuse?.[0]?.reason,
    resets: toWait(Number(status.duration_until_reset?.seconds ?? 0)),
    headers: {
      limit: headers.get('RateLimit-Limit') ?? '',
      remaining: headers.get('RateLimit-Remaining') ?? '',
      resets: toWait(Number(headers.get('RateLimit-Reset'))),
      retryAfter: retryAfter === undefined ? undefined : toWait(Number(retryAfter)),
      policy: ownParameters(headers.get('RateLimit-Policy')),
      wouldRefuse: headers.get('Would-Refuse'),
      current: ownParameters(headers.get('RateLimit'))?.replace(/t=\d+/, 't'),
    },
    explained: {
      status: explained.status,
      algorithm: shown?.algorithm ?? '',
      code: shown?.code ?? '',
      passesIn: passesInMs === 0 ? undefined : toWait((passesInMs ?? Number.POSITIVE_INFINITY) / 1_000),
      why: explained.decision.why,
      spared: explained.decision.wouldRefuse?.[0]?.reason,
      arithmetic: endOf(shown?.arithmetic ?? ''),
    },
    refusal: refusals[0] && endOf(refusals[0].descriptors[0]?.arithmetic ?? ''),
    counter: { algorithm: own?.algorithm ?? '', used: own?.used ?? 0, remaining: own?.remaining ?? 0 },
  };
}

/** The parameters of the first item of a field, without its name. */
const ownParameters = (field: string | undefined): string | undefined =>
  field?.split(', ')[0]?.replace(/^"[^"]*";/, '');

/** What is compared with what: `> 3`, or the words of a shared limit. */
const endOf = (arithmetic: string): string => /[>≤] [^:]+/.exec(arithmetic)?.[0] ?? arithmetic;

/** What the metrics of a rule say: the name of its algorithm, and the hits that had room. */
export function readMetrics(text: string, kind: Kind): Views['metrics'] {
  const rule = kind.isStated ? `${kind.name}_[^"]*` : pathOf(kind).slice(DOMAIN.length + 1);
  const line = new RegExp(
    `^weir_hits_within_limit_total\\{domain="${DOMAIN}",rule="${rule}",algorithm="(\\w+)"\\} (\\d+)$`,
    'm',
  );
  const [, algorithm = '', within = ''] = line.exec(text) ?? [];
  return { algorithm, within: Number(within) };
}

const whys = {
  shadow: 'only limits in shadow mode are exceeded',
  quota: 'quota rules refuse a request only if all of them are over their limits',
} as const;

/** The doors that ask as proxies do, and so count in the metrics of rules. */
const PROXIED = 4;

/** The hits with room of all doors whose hits are counted under the rule. */
function withinOf({ room, isOverridden, isStated, isReported }: Kind): number {
  if (isStated) return room; // each value is a rule of its own
  if (isReported) return room * (PROXIED - 1); // /authz reports no status
  return isOverridden ? room + (PROXIED - 1) * (room + 1) : room * PROXIED;
}

/** The table: what each view must say of a kind. */
export function expectedViews(kind: Kind): Views {
  const { passes, shown, policy, wait, used, algorithm, refusal } = kind;
  const isMoney = kind.name === 'budget';
  const amount = (count: number): string => (isMoney ? `${(count / 100).toFixed(2)}` : String(count));
  const refused = passes ? undefined : wait;
  const compared = kind.isShared
    ? 'all slots are used up by all tenant values'
    : `> ${isMoney ? '3.00 USD' : kind.room}`;
  const over = refusal ?? compared;
  const hasTime = !passes && kind.use !== 'slots' && wait !== 'never';
  return {
    codes: [passes ? 1 : 2, passes === 'shadow' ? 1 : 2],
    limit: shown,
    remaining: 0,
    spared: passes,
    resets: wait,
    headers: {
      limit: amount(shown),
      remaining: amount(0),
      resets: wait,
      retryAfter: refused === 'never' ? undefined : refused,
      policy,
      wouldRefuse: passes && `"${pathOf(kind)}";reason=${passes}`,
      current: policy && `r=0${hasTime ? ';t' : ''}`,
    },
    explained: {
      status: passes ? 200 : 429,
      algorithm,
      code: 'OVER_LIMIT',
      passesIn: refused,
      spared: passes,
      why: passes ? whys[passes] : 'a limit is exceeded',
      arithmetic: over,
    },
    refusal: passes ? undefined : over,
    counter: { algorithm, used, remaining: kind.isStated ? 95 : 0 },
    metrics: {
      algorithm,
      within: withinOf(kind) * (isMoney ? 1e9 : 1),
    },
  };
}
