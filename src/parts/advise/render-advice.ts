import { present } from '../../base/group.ts';
import { printable, printableJson } from '../../base/printable.ts';
import { count, counted, percent, share, table } from '../../base/texts.ts';
import { spanText } from '../replay/report.ts';
import type { Advice, Proposal, RuleAdvice } from './answers.ts';

/** Advice as text for operators. */
export function adviceText({ limits, skipped }: Pick<Advice, 'limits' | 'skipped'>): string {
  const sections = limits.map((one) => ruleLines(one).join('\n'));
  if (skipped.length > 0) sections.push(['without advice:', ...skipped.map((text) => `  ${text}`)].join('\n'));
  return sections.length === 0 ? 'no request met a limit' : sections.join('\n\n');
}

function ruleLines(advice: RuleAdvice): readonly string[] {
  const { limit, confidence, warnings, proposal, refusal, refusedNow } = advice;
  const name = limit.name === undefined ? '' : `, ${limit.name}`;
  return [
    `${limit.rule}${name}: ${limit.text}${limit.burst === undefined ? '' : `, burst ${count(limit.burst)}`}${limit.shadow ? ', in shadow mode' : ''}`,
    `  seen: ${confidenceText(confidence)}`,
    `  refused: ${counted(refusedNow.hits, 'hit')} of ${keysText(refusedNow.keys)}`,
    ...warnings.map(({ text }) => `  warning: ${text}`),
    '',
    ...distribution(advice).map((line) => `  ${line}`),
    '',
    ...limitTable(advice.table, confidence.keys).map((line) => `  ${line}`),
    '',
    ...(proposal ? proposalLines(advice, proposal) : [`  no proposal: ${refusal ?? ''}`]),
  ];
}

/** `24,113 requests of 1,020 keys on 1 day (…): low confidence, …`. */
function confidenceText(found: RuleAdvice['confidence']): string {
  const { requests, keys, oneIn, days, grade, because, first, last } = found;
  const about = oneIn > 1 ? 'some ' : '';
  const why = because.length === 0 ? '' : `: ${because.join('; ')}`;
  return `${counted(requests, 'request')} of ${about}${counted(Math.round(keys), 'key')} on ${counted(days, 'day')}, ${first} to ${last}; confidence ${grade}${why}`;
}

const keysText = ({ keys, share: part }: Proposal['othersHit']): string =>
  `${counted(keys, 'key')} (${share(part, 1)})`;

function distribution({ windows, busiest, envelope, bursts, limit: { windowMs } }: RuleAdvice): readonly string[] {
  return table([
    ['hits of a key', 'p50', 'p90', 'p99', 'p99.9', 'max'],
    [`in a window of ${spanText(windowMs)}`, ...formatCells(windows)],
    ['in its busiest window', ...formatCells(busiest)],
    ...envelope.map((one) => [`in any ${spanText(one.intervalMs)}, at most`, ...formatCells(one)]),
    ...bursts.map((one) => [`burst needed at ${count(one.rate)} in ${spanText(windowMs)}`, ...formatCells(one)]),
  ]);
}

const formatCells = ({ p50, p90, p99, p999, max }: RuleAdvice['windows']): readonly string[] =>
  [p50, p90, p99, p999, max].map(count);

function limitTable(rows: RuleAdvice['table'], keys: number): readonly string[] {
  return table([
    ['limit', 'keys hit', '', 'requests refused'],
    ...rows.map(({ limit, keysHit, requestsRefused, is }) => [
      `${count(limit)}${is === undefined ? '' : ` (${is})`}`,
      count(keysHit),
      share(keysHit, keys),
      count(requestsRefused),
    ]),
  ]);
}

function proposalLines({ limit }: RuleAdvice, proposal: Proposal): readonly string[] {
  const { algorithm, requestsPerUnit, burst, othersHit, apartHit, atMostShare, reasons } = proposal;
  const size = `${count(requestsPerUnit)} in ${spanText(limit.windowMs)} by ${algorithm}${burst === undefined ? '' : `, burst ${count(burst)}`}`;
  return [
    `  proposed: ${size}`,
    ...reasons.map((reason) => `    ${reason}`),
    `    of the observed keys, it hits ${keysText(othersHit)} of ${apartHit ? 'the others' : 'all'}${apartHit ? ` and ${keysText(apartHit)} of those that stand out` : ''}; of keys like ${apartHit ? 'the others' : 'these'}, at most ${percent(atMostShare)}`,
  ];
}

/** Advice with a proposal. */
type ProposedAdvice = RuleAdvice & { readonly proposal: Proposal };

export const hasProposal = (advice: RuleAdvice): advice is ProposedAdvice => advice.proposal !== undefined;

interface OverlaidNode {
  readonly node: RuleAdvice['limit']['nodes'][number];
  readonly limits: ProposedAdvice[];
  readonly children: Map<string, OverlaidNode>;
}

/**
 * Renders proposals as an overlay of the rules for `weir check --overlay` and `RULES_OVERLAY`, with their reasons as
 * comments.
 *
 * @param all  proposals of one domain, at least one
 */
export function overlayText(all: readonly ProposedAdvice[]): string {
  const root = new Map<string, OverlaidNode>();
  for (const advice of all) place(root, advice);
  const domain = all[0]?.limit.domain ?? '';
  return ['# proposed by weir advise', `domain: ${printableJson(domain)}`, ...renderLevel(root, ''), ''].join('\n');
}

function place(root: Map<string, OverlaidNode>, advice: ProposedAdvice): void {
  let level = root;
  let found: OverlaidNode | undefined;
  for (const node of advice.limit.nodes) {
    const id = JSON.stringify([node.key, node.value, node.addresses]);
    found = level.get(id) ?? { node, limits: [], children: new Map() };
    level.set(id, found);
    level = found.children;
  }
  found?.limits.push(advice);
}

function renderLevel(level: ReadonlyMap<string, OverlaidNode>, indent: string): readonly string[] {
  if (level.size === 0) return [];
  const nodes = Array.from(level.values(), ({ node: { key, value, addresses }, limits, children }) =>
    present([
      ...limits.flatMap(renderComments).map((line) => `${indent}  # ${line}`),
      `${indent}  - key: ${printableJson(key)}`,
      value !== undefined && `${indent}    value: ${printableJson(value)}`,
      addresses !== undefined && `${indent}    addresses: ${printableJson(addresses)}`,
      ...limitLines(limits, `${indent}    `),
      ...renderLevel(children, `${indent}    `),
    ]),
  );
  return [`${indent}descriptors:`, ...nodes.flat()];
}

function limitLines(limits: readonly ProposedAdvice[], indent: string): readonly string[] {
  const [first] = limits;
  if (!first) return [];
  if (first.limit.of === 1) return [`${indent}rate_limit: ${renderLimit(first)}`];
  const blocks = Array.from({ length: first.limit.of }, (_, at) => {
    const own = limits.find(({ limit }) => limit.at === at);
    return `${indent}  - ${own ? renderLimit(own) : '{}'}`;
  });
  return [`${indent}rate_limits:`, ...blocks];
}

function renderLimit({ limit, proposal: { algorithm, requestsPerUnit, burst } }: ProposedAdvice): string {
  const parts = present([
    `requests_per_unit: ${requestsPerUnit}`,
    algorithm !== limit.algorithm && `algorithm: ${algorithm}`,
    burst !== undefined && `burst: ${burst}`,
  ]);
  return `{ ${parts.join(', ')} }`;
}

/** Comment lines, made printable since texts from callers may contain line breaks. */
const renderComments = ({ limit, proposal, confidence }: ProposedAdvice): readonly string[] =>
  [`${limit.rule}: was ${limit.text}`, ...proposal.reasons, confidenceText(confidence)].map(printable);
