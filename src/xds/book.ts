import type { RuleBook } from '../rules/book.ts';
import type { CheckedRules, LoadedRules, LoadOptions } from '../rules/load.ts';
import type { OverlayFile } from '../rules/overlay.ts';
import type { Overlay } from '../rules/overlay-files.ts';
import { openThread } from '../rules/thread.ts';
import { Answers } from './answers.ts';
import { type ControlPlane, DiscoveryClient } from './client.ts';
import type { WireDiscoveryResponse } from './proto.ts';
import type { AnswerCheck, ResourceAnswer } from './resources.ts';

/** Checks a control plane's answers away from the event loop. */
export interface AnswerChecker {
  do(answer: ResourceAnswer, overlay: readonly OverlayFile[]): Promise<CheckedRules>;
  close(): void;
}

export interface DiscoveredRulesOptions extends Omit<LoadOptions, 'overlay'> {
  /** What is laid over the rules; the book closes it. */
  readonly overlay?: Overlay | undefined;
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
  const { onLoad, onUp, onDown, mergeDomains, store, overlay } = options;
  const loadOptions: LoadOptions = { mergeDomains, ...(store && { store }) };
  const checker = options.checker ?? openAnswerChecker(loadOptions);
  const check = async (
    { type_url, resources }: WireDiscoveryResponse,
    over: readonly OverlayFile[],
  ): Promise<CheckedRules> => {
    try {
      return await checker.do({ type_url, resources }, over);
    } catch (error) {
      const message = `cannot be checked: ${error instanceof Error ? error.message : error}`; // for want of memory, say
      return { ok: false, problems: [{ file: 'response', line: undefined, path: '', severity: 'error', message }] };
    }
  };
  const answers = new Answers({ overlay, check, onLoad, onAccepted: (answer) => client.acknowledge(answer) });
  const client = new DiscoveryClient(controlPlane, { onResponse: (response) => answers.take(response), onUp, onDown });
  return {
    rules: () => answers.rules.tree,
    packed: () => answers.rules.packed,
    onChange: (listener) => answers.rules.onChange(listener),
    close() {
      answers.close();
      client.close();
      checker.close();
    },
  };
}

/** Checks answers in a thread. */
function openAnswerChecker(options: LoadOptions): AnswerChecker {
  const thread = openThread<AnswerCheck, CheckedRules>(new URL('./resource-check-thread.js', import.meta.url), options);
  return { do: (answer, overlay) => thread.do({ answer, overlay }), close: thread.close };
}
