import type { RuleBook } from '../rules/book.ts';
import { RulesInForce } from '../rules/in-force.ts';
import type { CheckedRules, LoadedRules, LoadOptions } from '../rules/load.ts';
import type { Problem } from '../rules/problem.ts';
import { openThread } from '../rules/thread.ts';
import { type ControlPlane, DiscoveryClient } from './client.ts';
import type { WireDiscoveryResponse } from './proto.ts';
import type { ResourceAnswer } from './resources.ts';

/** Checks a control plane's answers away from the event loop. */
export interface AnswerChecker {
  do(answer: ResourceAnswer): Promise<CheckedRules>;
  close(): void;
}

export interface DiscoveredRulesOptions extends LoadOptions {
  /** Takes every load: what came of it. */
  readonly onLoad: (loaded: LoadedRules) => void;
  /** The control plane can be reached: for the first time, or again. */
  readonly onUp: () => void;
  /** It cannot be reached, and why: once for each reason, until it can again. The rules in force stay so. */
  readonly onDown: (reason: string) => void;
  /** Absent: a thread. */
  readonly checker?: AnswerChecker;
}

/**
 * The rules that a control plane hands out. Each of its answers replaces them all; an answer that is wrong leaves them alone, and the control plane
 * receives every reason. Answers are decoded and checked in a thread and compiled in slices, so that requests do not wait.
 *
 * @throws Error  a header that gRPC does not take; a certificate file that cannot be read or used
 */
export function openDiscoveredRules(controlPlane: ControlPlane, options: DiscoveredRulesOptions): RuleBook {
  const { onLoad, onUp, onDown, mergeDomains, store } = options;
  const loadOptions: LoadOptions = { mergeDomains, ...(store && { store }) };
  const checker = options.checker ?? openThread(new URL('./resource-check-thread.js', import.meta.url), loadOptions);
  const inForce = new RulesInForce();
  let isClosed = false;

  const check = async ({ type_url, resources }: WireDiscoveryResponse): Promise<CheckedRules> => {
    try {
      return await checker.do({ type_url, resources });
    } catch (error) {
      const message = `cannot be checked: ${error instanceof Error ? error.message : error}`; // for want of memory, say
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
