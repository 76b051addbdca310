import type { RuleBook } from '../rules/book.ts';
import { RulesInForce } from '../rules/in-force.ts';
import type { CheckedRules, LoadedRules, LoadOptions } from '../rules/load.ts';
import type { Problem } from '../rules/problem.ts';
import { openThread } from '../rules/thread.ts';
import { type ControlPlane, DiscoveryClient } from './client.ts';
import type { WireDiscoveryResponse } from './proto.ts';
import type { ResourceAnswer } from './resources.ts';

/** Checks a control plane's answers off the event loop. */
export interface AnswerChecker {
  do(answer: ResourceAnswer): Promise<CheckedRules>;
  close(): void;
}

export interface DiscoveredRulesOptions extends LoadOptions {
  /** Called with the result of every load. */
  readonly onLoad: (loaded: LoadedRules) => void;
  /** The control plane became reachable. */
  readonly onUp: () => void;
  /** It became unreachable; called once per reason until it is reachable again. The rules in force are kept. */
  readonly onDown: (reason: string) => void;
  /** Default: a worker thread. */
  readonly checker?: AnswerChecker;
}

/**
 * The rules that a control plane serves. Each valid answer replaces them all; an invalid answer changes nothing, and its problems are sent to
 * the control plane. Answers are decoded and checked in a thread and compiled in slices, so that requests do not wait.
 *
 * @throws Error if a header is not valid for gRPC, or a certificate file cannot be used
 */
export function openDiscoveredRules(controlPlane: ControlPlane, options: DiscoveredRulesOptions): RuleBook {
  const { onLoad, onUp, onDown, mergeDomains, store } = options;
  const loadOptions: LoadOptions = { mergeDomains, ...(store && { store }) };
  const checker = options.checker ?? openThread(new URL('./check-thread.js', import.meta.url), loadOptions);
  const inForce = new RulesInForce();
  let isClosed = false;

  const check = async ({ type_url, resources }: WireDiscoveryResponse): Promise<CheckedRules> => {
    try {
      return await checker.do({ type_url, resources });
    } catch (error) {
      const message = `cannot be checked: ${error instanceof Error ? error.message : error}`; // out of memory, for example
      return { ok: false, problems: [{ file: 'response', line: undefined, path: '', severity: 'error', message }] };
    }
  };
  const client = new DiscoveryClient(controlPlane, {
    async onResponse(response) {
      const checked = await check(response);
      if (isClosed) return undefined;
      if (checked.ok) onLoad({ ...checked, rules: await inForce.replace(checked.packed) });
      else onLoad(checked);
      return checked.ok ? undefined : { refusal: refusalOf(checked.problems) };
    },
    onUp,
    onDown,
  });
  return {
    rules: () => inForce.tree,
    packed: () => inForce.packed,
    onChange: (listener) => inForce.onChange(listener),
    close() {
      isClosed = true;
      client.close();
      checker.close();
    },
  };
}

/** Problems listed in a refusal; further ones are counted. The control plane limits the size of messages. */
const MAX_LISTED_PROBLEMS = 20;

/** One problem per line, as in envoyproxy/ratelimit: `<resource>: <message>`, then its path. */
function refusalOf(problems: readonly Problem[]): string {
  const lines = problems
    .slice(0, MAX_LISTED_PROBLEMS)
    .map(({ file, message, path }) => `${file}: ${message}${path === '' ? '' : ` (${path})`}`);
  const more = problems.length - lines.length;
  return [...lines, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n');
}
