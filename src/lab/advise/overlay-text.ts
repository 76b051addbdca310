import { printable, printableJson } from '../../base/printable.ts';
import type { Proposal, RuleAdvice, RuleNode } from './advised-rule.ts';
import { confidenceText } from './render-advice.ts';

/** Advice with a proposal. */
export type ProposedAdvice = RuleAdvice & { readonly proposal: Proposal };

export const hasProposal = (advice: RuleAdvice): advice is ProposedAdvice => advice.proposal !== undefined;

interface OverlaidNode {
  readonly node: RuleNode;
  readonly limits: ProposedAdvice[];
  readonly children: Map<string, OverlaidNode>;
}

/**
 * Proposals as an overlay of the rules for `weir check --overlay` and `RULES_OVERLAY`, with their reasons as comments.
 *
 * @param all  at least one, all of the same domain
 */
export function overlayText(all: readonly ProposedAdvice[]): string {
  const root = new Map<string, OverlaidNode>();
  for (const advice of all) place(root, advice);
  const domain = all[0]?.limit.domain ?? '';
  return ['# proposed by weir advise', `domain: ${printableJson(domain)}`, ...linesOf(root, ''), ''].join('\n');
}

function place(root: Map<string, OverlaidNode>, advice: ProposedAdvice): void {
  let level = root;
  let found: OverlaidNode | undefined;
  for (const node of advice.limit.nodes) {
    const id = JSON.stringify([node.key, node.value]);
    found = level.get(id) ?? { node, limits: [], children: new Map() };
    level.set(id, found);
    level = found.children;
  }
  found?.limits.push(advice);
}

function linesOf(level: ReadonlyMap<string, OverlaidNode>, indent: string): readonly string[] {
  if (level.size === 0) return [];
  return [
    `${indent}descriptors:`,
    ...Array.from(level.values(), ({ node, limits, children }) => [
      ...limits.flatMap(commentsOf).map((line) => `${indent}  # ${line}`),
      `${indent}  - key: ${printableJson(node.key)}`,
      ...(node.value === undefined ? [] : [`${indent}    value: ${printableJson(node.value)}`]),
      ...limitLines(limits, `${indent}    `),
      ...linesOf(children, `${indent}    `),
    ]).flat(),
  ];
}

function limitLines(limits: readonly ProposedAdvice[], indent: string): readonly string[] {
  const [first] = limits;
  if (!first) return [];
  if (first.limit.of === 1) return [`${indent}rate_limit: ${blockOf(first)}`];
  const blocks = Array.from({ length: first.limit.of }, (_, at) => {
    const own = limits.find(({ limit }) => limit.at === at);
    return `${indent}  - ${own ? blockOf(own) : '{}'}`;
  });
  return [`${indent}rate_limits:`, ...blocks];
}

function blockOf({ limit, proposal: { algorithm, requestsPerUnit, burst } }: ProposedAdvice): string {
  const parts = [
    `requests_per_unit: ${requestsPerUnit}`,
    ...(algorithm === limit.algorithm ? [] : [`algorithm: ${algorithm}`]),
    ...(burst === undefined ? [] : [`burst: ${burst}`]),
  ];
  return `{ ${parts.join(', ')} }`;
}

/** Texts from callers may contain line breaks. */
const commentsOf = ({ limit, proposal, confidence }: ProposedAdvice): readonly string[] =>
  [`${limit.rule}: was ${limit.text}`, ...proposal.reasons, confidenceText(confidence)].map(printable);
