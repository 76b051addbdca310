import { take } from '../../base/slices.ts';
import { counted } from '../../base/texts.ts';
import { describeLimit } from '../../engine/rules/match/describe-limit.ts';
import { placedNodes } from '../../engine/rules/match/level.ts';
import type { Level, RuleTree } from '../../engine/rules/match/tree.ts';
import type { SourcedRules } from '../../operate/admin/options.ts';
import type { Settings } from '../../settings/settings.ts';
import type { About } from '../link/messages.ts';

/** Maximum number of rules that are listed; the rest are counted. */
const LISTED_RULES = 10;

interface Opened {
  readonly rules: SourcedRules;
  /** The address of the debug port. */
  readonly debug: string;
  readonly localToken: string;
}

/** Facts about the rules and the debug port for the summary at the start. */
export function about(settings: Pick<Settings, 'debug' | 'admin'>, { rules, debug, localToken }: Opened): About {
  const tree = rules.book.rules();
  const listed = Array.from(take(LISTED_RULES, tree?.rules ?? []), ({ path, unlimited, limits }) => {
    return `${path}: ${unlimited ? 'unlimited' : limits.map(describeLimit).join(', ')}`;
  });
  const more = (tree?.rules.length ?? 0) - LISTED_RULES;
  return {
    debug,
    console: `${consoleAddress(settings.debug.tls !== undefined, debug)}${settings.admin.tokens ? '' : `#token=${localToken}`}`,
    rules: `${rules.description}: ${tree ? count(tree) : 'none yet'}`,
    details: [
      ...rules.notes.map((note) => `note: ${note}`),
      ...listed,
      ...(more > 0 ? [`… and ${more} more: see /rlconfig on the debug port`] : []),
    ],
    example: tree && exampleRequest(tree),
  };
}

const count = ({ domains, rules }: RuleTree): string =>
  `${counted(domains.size, 'domain')}, ${counted(rules.length, 'rule')}`;

/** A request that matches the first rule of the first domain. */
function exampleRequest({ domains }: RuleTree): string {
  const [domain] = domains.values();
  const entries = domain ? exampleEntries(domain.root) : undefined;
  return `${domain?.name ?? 'demo'} ${entries?.join(',') ?? 'user=alice'}`;
}

function exampleEntries(level: Level): readonly string[] | undefined {
  for (const { key, value, node } of placedNodes(level)) {
    const entry = `${key.text}=${value.kind === 'any_value' ? 'alice' : value.example('')}`;
    if (node.rule) return [entry];
    const below = node.children && exampleEntries(node.children);
    if (below) return [entry, ...below];
  }
  return undefined;
}

/**
 * The address of the console for a browser on this machine.
 *
 * @param debug  the address of the debug port
 */
function consoleAddress(hasTls: boolean, debug: string): string {
  const at = debug.lastIndexOf(':');
  const host = debug.slice(0, at);
  const isAny = ['0.0.0.0', '[::]', '', '127.0.0.1', '[::1]'].includes(host);
  return `${hasTls ? 'https' : 'http'}://${isAny ? 'localhost' : host}:${debug.slice(at + 1)}/console/`;
}
