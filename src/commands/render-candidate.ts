import type { Tally } from '../candidate/report.ts';
import type { Paint } from './paint.ts';

interface SentKeys {
  readonly count: number;
  readonly isAtLeast: boolean;
  readonly keys: readonly { readonly descriptor: string; readonly hits: number; readonly atMostTooHighBy: number }[];
}

interface SentProblem {
  readonly severity: 'error' | 'warning';
  readonly file?: string;
  readonly line?: number;
  readonly path: string;
  readonly message: string;
}

/** The candidate, as the API sends it. */
export interface SentCandidate {
  readonly state: 'off' | 'loading' | 'on' | 'wrong';
  readonly from: string | null;
  readonly by: string | null;
  readonly reason: string | null;
  readonly hash: string | null;
  readonly domains: readonly string[];
  readonly ruleCount: number;
  readonly problems: readonly SentProblem[];
  readonly moreProblems: number;
  readonly sample: number;
  readonly since: string | null;
  readonly dropped: { readonly behind: number; readonly overload: number };
  readonly failed: number;
  readonly evicted: number;
  readonly totals: Tally;
  readonly rules: readonly (Tally & {
    readonly rule: string;
    readonly inLive: boolean;
    readonly inCandidate: boolean;
    readonly newlyRefusedKeys: SentKeys;
    readonly newlyPassedKeys: SentKeys;
  })[];
  readonly moreRules: number;
}

/** The candidate for people. */
export function renderCandidate(found: SentCandidate, paint: Paint): string {
  const lines = [headOf(found, paint), ...found.problems.map((problem) => problemText(problem, paint))];
  if (found.moreProblems > 0) lines.push(`and ${found.moreProblems} more problems`);
  if (found.state !== 'on') return lines.join('\n');
  if (found.since === null) return [...lines, 'it is being loaded'].join('\n');
  lines.push(`since ${found.since}: ${tallyText(found.totals)}`, ...missingOf(found));
  for (const rule of found.rules) {
    lines.push('', `${paint.strong(rule.rule)}${placeText(rule)}  ${tallyText(rule)}`);
    lines.push(...keysText(rule.newlyRefusedKeys, 'newly refused', paint.bad));
    lines.push(...keysText(rule.newlyPassedKeys, 'newly passed', paint.good));
  }
  if (found.moreRules > 0) lines.push('', `and ${found.moreRules} more rules`);
  return lines.join('\n');
}

function headOf({ state, from, by, reason, hash, domains, ruleCount }: SentCandidate, paint: Paint): string {
  const source = `${from ?? ''}${by === null ? '' : `, by ${by}: ${reason}`}`;
  switch (state) {
    case 'off':
      return 'no candidate is tried';
    case 'loading':
      return `a candidate is being checked: ${source}`;
    case 'wrong':
      return paint.bad(`the candidate is wrong, and nothing is tried: ${source}`);
    default:
      return `${paint.strong(`${ruleCount} rules of ${domains.join(', ')}`)} are tried: ${source} ${paint.dim(`hash ${hash}`)}`;
  }
}

const problemText = ({ severity, file, line, path, message }: SentProblem, paint: Paint): string => {
  const place = `${file === undefined ? 'line ' : `${file}:`}${line ?? 1}`;
  return `  ${place}: ${paint[severity === 'error' ? 'bad' : 'dim'](severity)}: ${path === '' ? '' : `${path}: `}${message}`;
};

const tallyText = ({ requests, liveRefused, candidateRefused, newlyRefused, newlyPassed }: Tally): string =>
  `${requests} requests, refused ${liveRefused} live, ${candidateRefused} by the candidate: ${newlyRefused} newly refused, ${newlyPassed} newly passed`;

/** Why the figures are not of all requests. */
function missingOf({ sample, dropped, failed, evicted }: SentCandidate): readonly string[] {
  const notes: readonly (readonly [number, string])[] = [
    [dropped.behind, 'were not tried: too many were in flight'],
    [dropped.overload, 'were not tried: the service has too much to do'],
    [failed, 'got no answer from the counters of the candidate'],
  ];
  return [
    ...(sample < 1 ? [`of ${sample * 100} % of all counters`] : []),
    ...notes.flatMap(([number, what]) => (number > 0 ? [`${number} requests ${what}`] : [])),
    ...(evicted > 0 ? [`${evicted} counters of the candidate were forgotten for want of room`] : []),
  ];
}

function placeText({ inLive, inCandidate }: SentCandidate['rules'][number]): string {
  if (inLive === inCandidate) return '';
  return inLive ? ' (not in the candidate)' : ' (new)';
}

function keysText({ count, isAtLeast, keys }: SentKeys, what: string, colour: (text: string) => string): string[] {
  if (count === 0) return [];
  const width = Math.max(...keys.map(({ hits }) => String(hits).length), 0);
  return [
    `  ${colour(what)}: ${isAtLeast ? 'at least ' : ''}${count} keys`,
    ...keys.map(({ descriptor, hits, atMostTooHighBy }) => {
      const bound = atMostTooHighBy > 0 ? `  at most ${atMostTooHighBy} too high` : '';
      return `    ${String(hits).padStart(width)}  ${descriptor}${bound}`;
    }),
  ];
}

interface SentFate {
  readonly limit: string;
  readonly counters: 'kept' | 'new';
}

/** The comparison, as the API sends it. */
export interface SentDiff {
  readonly added: readonly { readonly rule: { readonly path: string }; readonly counters: readonly SentFate[] }[];
  readonly removed: readonly { readonly rule: { readonly path: string }; readonly after?: string }[];
  readonly changed: readonly { readonly after: { readonly path: string }; readonly counters: readonly SentFate[] }[];
}

/** What putting the candidate in force does, for people, and how to do it. */
export function renderCandidateDiff({ added, removed, changed }: SentDiff, paint: Paint): string {
  const fates = (counters: readonly SentFate[]): string =>
    counters
      .map(({ limit, counters: fate }) => `${limit} (${fate === 'kept' ? 'counters are kept' : 'counters start anew'})`)
      .join(', ');
  return [
    ...added.map(({ rule, counters }) => `${paint.good(`+ ${rule.path}`)}: ${fates(counters)}`),
    ...removed.map(
      ({ rule, after }) =>
        `${paint.bad(`- ${rule.path}`)}: its descriptors meet ${after === undefined ? 'no rule' : after} then`,
    ),
    ...changed.map(({ after, counters }) => `${paint.strong(`~ ${after.path}`)}: ${fates(counters)}`),
    `${added.length} added, ${removed.length} removed, ${changed.length} changed`,
    'to put it in force, replace the rules at their source (RULES_PATH, or the control plane), then run weir candidate clear',
  ].join('\n');
}
