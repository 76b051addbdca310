import { inTurn } from '../../base/in-turn.ts';
import type { StoreTraits } from '../../engine/rules/compile/fit.ts';
import type { OverlayFile } from '../../engine/rules/overlay/overlay.ts';
import { countProblems, formatLine, type Problem } from '../../engine/rules/read/problem.ts';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import type { CheckedRules, LoadedRules, LoadOptions } from '../../engine/rules/reload/load.ts';
import { checkOverlaid, type OverlaidCheck, type Overlay } from '../../engine/rules/reload/overlay-files.ts';
import type { CompareRules } from '../../engine/rules/reload/reload.ts';
import { openRulesProcess } from '../../engine/rules/reload/rules-process.ts';
import { type ControlPlane, DiscoveryClient, waitMs } from './client.ts';
import type { WireDiscoveryResponse } from './proto.ts';
import type { AnswerCheck, ResourceAnswer } from './resources.ts';

/** Checks a control plane's answers off the event loop. */
interface AnswerChecker {
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

interface AnswersOptions {
  /** For limits that sites share; absent: this is the only site. */
  readonly split?: StoreTraits['split'];
  readonly overlay: Overlay | undefined;
  /** Checks an answer with an overlay. Rejects if the checking process fails: the answer may be valid. */
  check(answer: WireDiscoveryResponse, overlay: readonly OverlayFile[]): Promise<CheckedRules>;
  /** Called with the result of every load. */
  onLoad(loaded: LoadedRules): void;
  /** A refused answer is now in force: the overlay was invalid, or the checking process had failed. */
  onAccepted(answer: WireDiscoveryResponse): void;
}

/**
 * The wait before unchecked answers are checked again: the control plane has received the refusal, but need not resend
 * them.
 */
const CHECK_AGAIN = { initialMs: 1_000, maxMs: 30_000, jitter: false };

/** The result of a check, and whether the checking process failed. */
type Outcome = OverlaidCheck & { readonly isUnchecked: boolean };

/**
 * Puts a control plane's answers in force, in sequence, each with the overlay. It checks them again when the overlay
 * changes, or after the checking process failed.
 */
class Answers {
  readonly rules: RulesInForce;
  readonly #options: AnswersOptions;
  /** The answer whose rules are in force; kept only if there is an overlay, which may change. */
  #inForce: WireDiscoveryResponse | undefined;
  /** The newest answer, if it is not in force; kept if there is an overlay, or until it can be checked. */
  #refused: WireDiscoveryResponse | undefined;
  /** Schedules the next check after a failure. */
  #timer: NodeJS.Timeout | undefined;
  /** Consecutive failures of the checking process. */
  #failures = 0;
  readonly #inTurn = inTurn();
  #isClosed = false;

  constructor(options: AnswersOptions) {
    this.#options = options;
    this.rules = new RulesInForce(options.split);
    options.overlay?.onChange(() => void this.#inTurn(() => this.#checkAgain()));
  }

  /** Puts an answer in force, or returns why it is refused. */
  take(answer: WireDiscoveryResponse): Promise<{ readonly refusal: string } | undefined> {
    return this.#inTurn(async () => {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#failures = 0;
      const outcome = await this.#check(answer);
      if (this.#isClosed) return undefined;
      this.#keep(answer, outcome);
      await this.#load(outcome);
      this.#checked(outcome.isUnchecked);
      return outcome.valid ? undefined : { refusal: refusalOf(outcome.refusal) };
    });
  }

  #keep(answer: WireDiscoveryResponse, { valid, isUnchecked }: Outcome): void {
    const mayChange = this.#options.overlay !== undefined;
    if (valid && mayChange) this.#inForce = answer;
    this.#refused = !valid && (mayChange || isUnchecked) ? answer : undefined;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#options.overlay?.close();
  }

  /** The refused answer may be valid now; otherwise the new overlay applies to the answer in force. */
  async #checkAgain(): Promise<void> {
    const refused = this.#refused;
    const again = refused && (await this.#check(refused));
    if (this.#isClosed) return;
    if (refused && again) this.#keep(refused, again);
    if (refused && again?.valid) {
      await this.#load(again);
      this.#options.onAccepted(refused);
      return this.#checked(again.isUnchecked);
    }
    const outcome = this.#inForce && (await this.#check(this.#inForce));
    if (this.#isClosed) return;
    if (outcome) await this.#load(outcome);
    if (again) this.#report(again); // the newest answer still has these problems
    this.#checked(again?.isUnchecked === true || outcome?.isUnchecked === true);
  }

  /** Schedules another check if the process failed. */
  #checked(isUnchecked: boolean): void {
    clearTimeout(this.#timer);
    this.#failures = isUnchecked ? this.#failures + 1 : 0;
    if (!isUnchecked || this.#isClosed) return;
    const timer = setTimeout(
      () => void this.#inTurn(async () => timer === this.#timer && this.#checkAgain()),
      waitMs(CHECK_AGAIN, this.#failures, Math.random),
    ).unref();
    this.#timer = timer;
  }

  async #check(answer: WireDiscoveryResponse): Promise<Outcome> {
    let isUnchecked = false;
    const outcome = await checkOverlaid(this.#options.overlay, async (overlay) => {
      try {
        return await this.#options.check(answer, overlay);
      } catch (error) {
        isUnchecked = true; // out of memory, for example
        return uncheckable(error);
      }
    });
    return { ...outcome, isUnchecked };
  }

  async #load(outcome: Outcome): Promise<void> {
    const { valid, invalid } = outcome;
    if (valid && !(invalid && this.rules.has(valid.packed))) {
      const rules = await this.rules.replace(valid.packed);
      if (this.#isClosed) return;
      this.#options.onLoad({ ...valid, rules });
    }
    this.#report(outcome);
  }

  /** Consecutive failures of the checking process are reported once. */
  #report({ invalid, isUnchecked }: Outcome): void {
    if (invalid && !(isUnchecked && this.#failures > 0)) this.#options.onLoad(invalid);
  }
}

function uncheckable(error: unknown): Extract<CheckedRules, { ok: false }> {
  const message = `cannot be checked; the check will be retried: ${error instanceof Error ? error.message : error}`;
  return { ok: false, problems: [{ file: 'response', line: undefined, path: '', severity: 'error', message }] };
}

/** The most problems listed in a refusal; further ones are counted. The control plane limits the size of messages. */
const MAX_LISTED_PROBLEMS = 20;

/** One problem per line, as in envoyproxy/ratelimit: `<resource>: <message>`, then its path. */
function refusalOf(problems: readonly Problem[]): string {
  const lines = problems
    .slice(0, MAX_LISTED_PROBLEMS)
    .map(
      ({ file, line, message, path }) => `${formatLine({ file, line })}: ${message}${path === '' ? '' : ` (${path})`}`,
    );
  const more = countProblems(problems) - lines.length;
  return [...lines, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n');
}
