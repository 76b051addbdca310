import { take } from '../base/slices.ts';
import { describeLimit } from '../engine/rules/match/describe.ts';
import type { Level, RuleTree } from '../engine/rules/match/tree.ts';

/** The most rules that are listed individually; the rest are counted. */
const LISTED_RULES = 10;

interface Running {
  readonly version: string;
  readonly rulesFrom: string;
  /** Details of how the rules are read, unless they are obvious. */
  readonly notes: readonly string[];
  readonly rules: RuleTree | undefined;
  readonly counters: string;
  /** The number of processes that answer requests. */
  readonly workers: number;
  readonly grpc: string;
  readonly http: string;
  readonly debug: string;
  /** The address of the console for a browser on this machine. */
  readonly console: string;
}

/** The text printed at the start: the rules, the addresses, and a command to try. */
export function banner(running: Running): string {
  const { version, rulesFrom, notes, rules, counters, workers, grpc, http, debug, console } = running;
  const listed = Array.from(take(LISTED_RULES, rules?.rules ?? []), ({ path, unlimited, limits }) => {
    return `            ${path}: ${unlimited ? 'unlimited' : limits.map(describeLimit).join(', ')}`;
  });
  const more = (rules?.rules.length ?? 0) - LISTED_RULES;
  return [
    `Weir ${version}`,
    `  rules     ${rulesFrom}: ${rules ? count(rules) : 'none yet'}`,
    ...notes.map((note) => `            note: ${note}`),
    ...listed,
    ...(more > 0 ? [`            … and ${more} more: see /rlconfig on the debug port`] : []),
    `  counters  ${counters}`,
    ...(workers > 1 ? [`  workers   ${workers} processes`] : []),
    `  gRPC      ${grpc}`,
    `  HTTP      ${http}  (/json, /healthcheck)`,
    `  debug     ${debug}  (/rlconfig, /metrics)`,
    `  console   ${console}`,
    ...(rules ? [`  try       ${exampleCommand(rules, grpc)}`] : []),
  ].join('\n');
}

const count = ({ domains, rules }: RuleTree): string =>
  `${plural(domains.size, 'domain')}, ${plural(rules.length, 'rule')}`;
const plural = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;

/** A command whose request matches the first rule of the first domain. */
function exampleCommand({ domains }: RuleTree, grpc: string): string {
  const [domain] = domains.values();
  const entries = domain ? exampleEntries(domain.root) : undefined;
  const port = grpc.slice(grpc.lastIndexOf(':') + 1);
  const target = port === '8081' ? '' : ` --target localhost:${port}`;
  return `npx weir ask ${domain?.name ?? 'demo'} ${entries?.join(',') ?? 'user=alice'}${target}`;
}

function exampleEntries({ byKey }: Level): readonly string[] | undefined {
  for (const [key, { byValue, anyValue }] of byKey) {
    for (const [value, node] of [...(anyValue ? [['alice', anyValue] as const] : []), ...byValue]) {
      const entry = `${key}=${value.replaceAll('*', '')}`;
      if (node.rule) return [entry];
      const below = node.children && exampleEntries(node.children);
      if (below) return [entry, ...below];
    }
  }
  return undefined;
}

/**
 * The address of the console for a browser on this machine.
 *
 * @param debug  the address of the debug port
 */
export function consoleAddress(hasTls: boolean, debug: string): string {
  const at = debug.lastIndexOf(':');
  const host = debug.slice(0, at);
  const isAny = ['0.0.0.0', '::', '[::]', '', '127.0.0.1', '::1'].includes(host);
  return `${hasTls ? 'https' : 'http'}://${isAny ? 'localhost' : host}:${debug.slice(at + 1)}/console/`;
}
