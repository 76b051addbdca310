import type { RuleBook } from '../rules/book.ts';
import type { LoadedRules, LoadOptions } from '../rules/load.ts';
import type { Problem } from '../rules/problem.ts';
import type { RuleTree } from '../rules/tree.ts';
import { type ControlPlane, DiscoveryClient } from './client.ts';
import { loadResources } from './resources.ts';

export interface DiscoveredRulesOptions extends LoadOptions {
  /** Is told of every load: what came of it. */
  readonly onLoad: (loaded: LoadedRules) => void;
  /** The control plane can be reached: for the first time, or again. */
  readonly onUp: () => void;
  /** It cannot be reached, and why: once for each reason, until it can again. The rules in force stay so. */
  readonly onDown: (reason: string) => void;
}

/**
 * The rules that a control plane hands out. Each of its answers replaces them all; an answer that is wrong leaves them alone, and the control plane
 * is told every reason.
 *
 * @throws Error  a header that gRPC does not take; a certificate file that cannot be read or used
 */
export function openDiscoveredRules(controlPlane: ControlPlane, options: DiscoveredRulesOptions): RuleBook {
  const { onLoad, onUp, onDown } = options;
  let rules: RuleTree | undefined;
  const client = new DiscoveryClient(controlPlane, {
    onResponse(response) {
      const loaded = loadResources(response, options);
      if (loaded.ok) rules = loaded.rules;
      onLoad(loaded);
      return loaded.ok ? undefined : { refusal: refusalOf(loaded.problems) };
    },
    onUp,
    onDown,
  });
  return { rules: () => rules, close: () => client.close() };
}

/** Problems that a control plane is told of; of more, it is told how many. Its server limits how large a message may be. */
const TOLD_PROBLEMS = 20;

/** A problem a line, as envoyproxy/ratelimit says it: `<resource>: <message>`, and then where. */
function refusalOf(problems: readonly Problem[]): string {
  const lines = problems
    .slice(0, TOLD_PROBLEMS)
    .map(({ file, message, path }) => `${file}: ${message}${path === '' ? '' : ` (${path})`}`);
  const more = problems.length - lines.length;
  return [...lines, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n');
}
