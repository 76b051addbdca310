import { describeLimit } from './rules/describe.ts';
import type { Level, RuleTree } from './rules/tree.ts';

/** Rules that are listed one by one; of more than that, the rest is counted. */
const LISTED_RULES = 10;

export interface Running {
  readonly version: string;
  readonly rulesFrom: string;
  /** How the source of the rules is read, if that is not obvious. */
  readonly notes: readonly string[];
  readonly rules: RuleTree | undefined;
  readonly counters: string;
  /** How many processes answer. */
  readonly workers: number;
  readonly grpc: string;
  readonly http: string;
  readonly debug: string;
  /** The address of the console for a browser on this machine. */
  readonly console: string;
}

/** What is printed at the start: which rules, where it listens, and one command to try. */
export function banner(running: Running): string {
  const { version, rulesFrom, notes, rules, counters, workers, grpc, http, debug, console } = running;
  const listed = rules?.rules.slice(0, LISTED_RULES).map(({ path, unlimited, limits }) => {
    return `            ${path}: ${unlimited ? 'unlimited' : limits.map(describeLimit).join(', ')}`;
  });
  const more = (rules?.rules.length ?? 0) - LISTED_RULES;
  return [
    `Weir ${version}`,
    `  rules     ${rulesFrom}: ${rules ? count(rules) : 'none yet'}`,
    ...notes.map((note) => `            note: ${note}`),
    ...(listed ?? []),
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

/** A question that the first rule of the first domain answers. */
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
