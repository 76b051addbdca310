import { countProblems, formatLine, type Problem } from '../../engine/rules/read/problem.ts';
import type { RuleBook } from '../../engine/rules/reload/book.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import type { LoadedRules, LoadOptions } from '../../engine/rules/reload/load.ts';
import { checkOverlaid, type OverlaidCheck, type Overlay } from '../../engine/rules/reload/overlay-files.ts';
import { type ControlPlane, DiscoveryClient } from './client.ts';
import type { WireDiscoveryResponse } from './proto.ts';
import { checkResources, withoutBroken } from './resources.ts';

interface DiscoveredRulesOptions extends Omit<LoadOptions, 'overlay'> {
  /** Overlay of the rules, closed with the book. */
  readonly overlay?: Overlay | undefined;
  /** Called with the result of every load. */
  readonly onLoad: (loaded: LoadedRules) => void;
  /** Called when the control plane becomes reachable. */
  readonly onUp: () => void;
  /** Called once per reason when it becomes unreachable, until it is reachable again. The current rules are kept. */
  readonly onDown: (reason: string) => void;
}

/**
 * The rules served by a control plane. Each valid answer replaces them all. An answer with problems is refused, and they
 * are sent to the control plane; the domains without problems apply all the same, and the others keep their rules.
 *
 * @see https://github.com/grpc/proposal/blob/master/A46-xds-nack-semantics-improvement.md
 * @throws Error if a header is not valid for gRPC, or a certificate file cannot be used
 */
export function openDiscoveredRules(controlPlane: ControlPlane, options: DiscoveredRulesOptions): RuleBook {
  const { onUp, onDown } = options;
  const answers = new Answers(options, (answer) => client.acknowledge(answer));
  const client = new DiscoveryClient(controlPlane, { onResponse: (response) => answers.take(response), onUp, onDown });
  return {
    rules: () => answers.rules.tree,
    packed: () => answers.rules.packed,
    onChange: (listener) => answers.rules.onChange(listener),
    close() {
      answers.close();
      client.close();
    },
  };
}

/** Applies a control plane's answers, each with the overlay, and again when the overlay changes. */
class Answers {
  readonly rules: RulesInForce;
  readonly #options: DiscoveredRulesOptions;
  readonly #onAccepted: (answer: WireDiscoveryResponse) => void;
  /** The applied answer, or what is applied of answers with problems. */
  #inForce: WireDiscoveryResponse | undefined;
  /** The newest answer if it was refused, kept only if there is an overlay. */
  #refused: WireDiscoveryResponse | undefined;

  /** @param onAccepted  called when an answer is in force that was refused before because of an invalid overlay */
  constructor(options: DiscoveredRulesOptions, onAccepted: (answer: WireDiscoveryResponse) => void) {
    this.#options = options;
    this.#onAccepted = onAccepted;
    this.rules = new RulesInForce(options.store?.split);
    options.overlay?.onChange(() => this.#checkAgain());
  }

  /** Applies an answer, or returns the reason why it is refused. */
  take(answer: WireDiscoveryResponse): { readonly refusal: string } | undefined {
    const outcome = this.#check(answer);
    this.#load(outcome);
    this.#learnLimitation().catch(() => {}); // deciders report a store that cannot be opened
    return outcome.refusal.length === 0 ? undefined : { refusal: formatRefusal(outcome.refusal) };
  }

  close(): void {
    this.#options.overlay?.close();
  }

  /** Reports rules that the store was found unable to count; later answers that have such rules are refused. */
  async #learnLimitation(): Promise<void> {
    if (await this.#options.store?.limitation?.learn()) this.#checkAgain();
  }

  /** Applies the refused answer if it is valid with the new overlay, or else the new overlay to the applied answer. */
  #checkAgain(): void {
    const refused = this.#refused;
    const again = refused && this.#check(refused);
    if (refused && again?.valid) {
      this.#load(again);
      return again.refusal.length === 0 ? this.#onAccepted(refused) : undefined;
    }
    const outcome = this.#inForce && this.#checkWhole(this.#inForce);
    if (outcome) this.#load(outcome);
    if (again?.invalid) this.#options.onLoad(again.invalid); // the newest answer still has these problems
  }

  /** Checks an answer, and keeps it as in force or as refused. If it has problems, it may apply in part. */
  #check(answer: WireDiscoveryResponse): OverlaidCheck {
    const whole = this.#checkWhole(answer);
    const part = whole.valid ? undefined : withoutBroken(answer, whole.refusal, this.#inForce);
    const valid = whole.valid ?? (part && this.#checkWhole(part).valid);
    if (valid) this.#inForce = part ?? answer;
    this.#refused = whole.valid || !this.#options.overlay ? undefined : answer;
    return { ...whole, valid };
  }

  #checkWhole(answer: WireDiscoveryResponse): OverlaidCheck {
    const { mergeDomains, store, overlay } = this.#options;
    return checkOverlaid(overlay, (files) =>
      checkResources(answer, { mergeDomains, ...(store && { store }), overlay: files }),
    );
  }

  #load({ valid, invalid }: OverlaidCheck): void {
    if (valid && !(invalid && this.rules.has(valid.packed)))
      this.#options.onLoad({ ...valid, rules: this.rules.replaceAtOnce(valid.packed) });
    if (invalid) this.#options.onLoad(invalid);
  }
}

/** Maximum number of problems listed in a refusal, since control planes limit messages; the others are counted. */
const MAX_LISTED_PROBLEMS = 20;

/** Formats one problem per line as in envoyproxy/ratelimit, `<resource>: <message>`, then its path. */
function formatRefusal(problems: readonly Problem[]): string {
  const lines = problems
    .slice(0, MAX_LISTED_PROBLEMS)
    .map(
      ({ file, line, message, path }) => `${formatLine({ file, line })}: ${message}${path === '' ? '' : ` (${path})`}`,
    );
  const more = countProblems(problems) - lines.length;
  return [...lines, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n');
}
