import type { Change } from '../mutants/mutants.ts';

/** A defect of the service that a caller can see. */
export interface Fault {
  readonly what: string;
  readonly file: string;
  readonly change: Change;
}

const codec = 'src/edge/wire/codec.ts';
const shown = 'src/engine/decide/shown.ts';
const match = 'src/engine/rules/match/match.ts';
const decide = 'src/engine/decide/decide.ts';
const stats = 'src/operate/observe/stats.ts';

/** Defects that rls-conformance must find. */
export const faults: readonly Fault[] = [
  {
    what: 'the last hit that fits is refused',
    file: 'src/engine/algorithms/fixed-window.ts',
    change: ['hits < 0 || after <= limit.capacity', 'hits < 0 || after < limit.capacity'],
  },
  {
    what: 'each value has statistics of its own',
    file: 'src/engine/rules/compile/node-rule.ts',
    change: ["return isFixed(key) ? 'rule' : 'key';", "return 'value';"],
  },
  {
    what: 'a month has 31 days',
    file: 'src/engine/algorithms/limit.ts',
    change: ['MONTH: 2_592_000_000', 'MONTH: 2_678_400_000'],
  },
  {
    what: 'a request without hits counts none',
    file: codec,
    change: ['hits_addend === 0 ? 1 : hits_addend', 'hits_addend'],
  },
  {
    what: 'a descriptor with 0 hits counts those of the request',
    file: codec,
    change: ['hits_addend?.value ?? requestHits', 'hits_addend?.value || requestHits'],
  },
  { what: 'hits never come back', file: codec, change: ['is_negative_hits ? 0 - hits : hits', 'hits'] },
  {
    what: 'unlimited rules have 0 hits left',
    file: codec,
    change: ['limit_remaining: MAX_UINT32', 'limit_remaining: 0'],
  },
  { what: 'resets are too early', file: shown, change: ['Math.ceil(ms / 1000)', 'Math.floor(ms / 2000)'] },
  { what: 'exact values are ignored', file: match, change: ['if (exact) return exact;', ''] },
  {
    what: 'the key alone takes precedence over wildcards',
    file: match,
    change: ['return first?.node ?? branch?.anyValue;', 'return branch?.anyValue ?? first?.node;'],
  },
  {
    what: "a missing child takes its parent's limit",
    file: match,
    change: ['if (!node) return level ? missAt(level, entry) : PATH_TOO_LONG;', 'if (!node) break;'],
  },
  {
    what: 'share_threshold has no effect',
    file: match,
    change: ['const counted = node.sharedValue ?? (', 'const counted = ('],
  },
  { what: 'nothing is replaced', file: match, change: ['!replaced.has(name)', 'name !== undefined'] },
  {
    what: 'one quota that is over refuses',
    file: decide,
    change: ['return quotas > 0 && overQuotas === quotas;', 'return overQuotas > 0;'],
  },
  {
    what: 'shadow mode refuses',
    file: decide,
    change: ["const code = policy.shadow ? 'OK' : decision.code;", 'const code = decision.code;'],
  },
  {
    what: 'a request without a domain passes',
    file: 'src/engine/decide/plan.ts',
    change: ["if (domain === '') throw new InvalidRequest('rate limit domain must not be empty');", ''],
  },
  {
    what: 'unknown keys of rule files are ignored',
    file: 'src/engine/rules/read/read.ts',
    change: ['else this.problems.error(place, ', 'else this.problems.warn(place, '],
  },
  {
    what: 'refusals of /json are 200',
    file: 'src/edge/http/api.ts',
    change: ['codeNumbers.OVER_LIMIT ? 429 : 200', 'codeNumbers.OVER_LIMIT ? 200 : 200'],
  },
  {
    what: 'hits near the limit are not counted',
    file: stats,
    change: ['counts.nearLimit += before >= nearMark ? hits : after - nearMark', 'counts.nearLimit += 0'],
  },
  {
    what: 'refusals of shadow mode are not counted',
    file: stats,
    change: ['if (policy.shadow) counts.shadowMode += over;', 'if (policy.shadow) counts.shadowMode += 0;'],
  },
];
