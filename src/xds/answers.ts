import type { StoreTraits } from '../rules/fit.ts';
import { RulesInForce } from '../rules/in-force.ts';
import type { CheckedRules, LoadedRules } from '../rules/load.ts';
import type { OverlayFile } from '../rules/overlay.ts';
import { checkOverlaid, type OverlaidCheck, type Overlay } from '../rules/overlay-files.ts';
import { countProblems, formatLine, type Problem } from '../rules/problem.ts';
import type { WireDiscoveryResponse } from './proto.ts';

export interface AnswersOptions {
  /** Of limits that sites share; absent: this is the only site. */
  readonly split?: StoreTraits['split'];
  readonly overlay: Overlay | undefined;
  /** Checks an answer with an overlay. Never rejects. */
  check(answer: WireDiscoveryResponse, overlay: readonly OverlayFile[]): Promise<CheckedRules>;
  /** Takes every load: what came of it. */
  onLoad(loaded: LoadedRules): void;
  /** An answer that was refused is in force after all: the overlay was what was wrong. */
  onAccepted(answer: WireDiscoveryResponse): void;
}

/**
 * Puts a control plane's answers in force, one after another, each with the overlay; and again when the overlay
 * changes.
 */
export class Answers {
  readonly rules: RulesInForce;
  readonly #options: AnswersOptions;
  /** The answer whose rules are in force; kept only for an overlay that may change. */
  #inForce: WireDiscoveryResponse | undefined;
  /** The newest answer, where it is not in force; likewise. */
  #refused: WireDiscoveryResponse | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(options: AnswersOptions) {
    this.#options = options;
    this.rules = new RulesInForce(options.split);
    options.overlay?.onChange(() => void this.#inTurn(() => this.#applyOverlay()));
  }

  /** Puts an answer in force, or says why not. */
  take(answer: WireDiscoveryResponse): Promise<{ readonly refusal: string } | undefined> {
    return this.#inTurn(async () => {
      const outcome = await this.#check(answer);
      if (this.#isClosed) return undefined;
      if (this.#options.overlay) this.#keep(answer, outcome);
      await this.#load(outcome);
      return outcome.right ? undefined : { refusal: refusalOf(outcome.refusal) };
    });
  }

  #keep(answer: WireDiscoveryResponse, { right }: OverlaidCheck): void {
    if (right) this.#inForce = answer;
    this.#refused = right ? undefined : answer;
  }

  close(): void {
    this.#isClosed = true;
    this.#options.overlay?.close();
  }

  /** A new overlay may make the answer right that was refused; otherwise it goes with the answer in force. */
  async #applyOverlay(): Promise<void> {
    const refused = this.#refused;
    const again = refused && (await this.#check(refused));
    if (this.#isClosed) return;
    if (refused && again?.right) {
      this.#keep(refused, again);
      await this.#load(again);
      this.#options.onAccepted(refused);
      return;
    }
    if (this.#inForce) {
      const outcome = await this.#check(this.#inForce);
      if (this.#isClosed) return;
      await this.#load(outcome);
    }
    if (again?.wrong) this.#options.onLoad(again.wrong); // still what is wrong with the newest
  }

  #check(answer: WireDiscoveryResponse): Promise<OverlaidCheck> {
    return checkOverlaid(this.#options.overlay, (overlay) => this.#options.check(answer, overlay));
  }

  async #load({ right, wrong }: OverlaidCheck): Promise<void> {
    const { onLoad } = this.#options;
    if (right && !(wrong && this.rules.has(right.packed))) {
      const rules = await this.rules.replace(right.packed);
      if (this.#isClosed) return;
      onLoad({ ...right, rules });
    }
    if (wrong) onLoad(wrong);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }
}

/** Problems listed in a refusal; further ones are counted. The control plane limits the size of messages. */
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
