import type { OverlayFile } from '../../engine/rules/overlay/overlay.ts';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import type { CheckedRules, LoadedRules, LoadOptions } from '../../engine/rules/reload/load.ts';
import type { Overlay } from '../../engine/rules/reload/overlay-files.ts';
import type { CompareRules } from '../../engine/rules/reload/reload.ts';
import { openRulesProcess } from '../../engine/rules/reload/rules-process.ts';
import { Answers } from './answers.ts';
import { type ControlPlane, DiscoveryClient } from './client.ts';
import type { WireDiscoveryResponse } from './proto.ts';
import type { AnswerCheck, ResourceAnswer } from './resources.ts';

/** Checks a control plane's answers off the event loop. */
export interface AnswerChecker {
  /** @param isServing  rules are in force, so requests take precedence */
  do(answer: ResourceAnswer, overlay: readonly OverlayFile[], isServing: boolean): Promise<CheckedRules>;
  close(): void;
}

interface DiscoveredRulesOptions extends Omit<LoadOptions, 'overlay'> {
  /** The overlay of the rules; closed with the book. */
  readonly overlay?: Overlay | undefined;
  /** Called with the result of every load. */
  readonly onLoad: (loaded: LoadedRules) => void;
  /** The control plane became reachable. */
  readonly onUp: () => void;
  /** It became unreachable; called once per reason until it is reachable again. The rules in force are kept. */
  readonly onDown: (reason: string) => void;
  /** Default: a process of its own. */
  readonly checker?: AnswerChecker;
}

/**
 * The rules that a control plane serves. Each valid answer replaces them all; an invalid answer changes nothing, and
 * its problems are sent to the control plane. Answers are decoded and checked in a process of its own and compiled in
 * slices, so that requests do not wait.
 *
 * @throws Error if a header is not valid for gRPC, or a certificate file cannot be used
 */
export function openDiscoveredRules(controlPlane: ControlPlane, options: DiscoveredRulesOptions): RuleBook {
  const { onLoad, onUp, onDown, mergeDomains, store, overlay } = options;
  const loadOptions: LoadOptions = { mergeDomains, ...(store && { store }) };
  const checker = options.checker ?? openAnswerChecker(loadOptions);
  const check = ({ type_url, resources }: WireDiscoveryResponse, over: readonly OverlayFile[]): Promise<CheckedRules> =>
    checker.do({ type_url, resources }, over, answers.rules.tree !== undefined);
  const answers = new Answers({
    split: store?.split,
    overlay,
    check,
    onLoad,
    onAccepted: (answer) => client.acknowledge(answer),
  });
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

/** Checks answers in a process of its own, and compares the resulting rules. */
export function openAnswerChecker(options: LoadOptions): AnswerChecker & { readonly compare: CompareRules } {
  const entry = new URL('./resource-check-process.js', import.meta.url);
  const { check, ...others } = openRulesProcess<AnswerCheck>(entry, options);
  return { ...others, do: (answer, overlay, isServing) => check({ answer, overlay }, isServing) };
}
