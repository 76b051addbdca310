import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { Clock } from '../../base/clock.ts';
import { hashRules, type PackedRules } from '../../engine/rules/compile/packed.ts';
import type { OverlayFile } from '../../engine/rules/read/overlaid.ts';
import type { Problem } from '../../engine/rules/read/problem.ts';
import { listFiles, type RuleSource } from '../../engine/rules/reload/files.ts';
import type { CheckedRules, RuleFileState } from '../../engine/rules/reload/load.ts';
import { type Candidate, type CandidateFacts, noCandidate } from '../../operate/admin/options.ts';

/** A candidate that an operator has sent. */
export interface PostedCandidate {
  /** One rule file. */
  readonly text: string;
  /** The name of the operator's token. */
  readonly by: string;
  readonly reason: string;
}

/** The status of the candidate, with what only operators of candidates see. */
export interface BookFacts extends CandidateFacts {
  /** The last source; undefined: there has been no candidate. */
  readonly origin: 'file' | 'api' | undefined;
  /** Undefined: the candidate is from files, or off. */
  readonly posted: PostedCandidate | undefined;
  readonly domains: readonly string[];
  readonly ruleCount: number;
  /** Its errors and warnings; only warnings while it is on. */
  readonly problems: readonly Problem[];
}

interface CandidateBookOptions {
  readonly check: (files: readonly RuleFileState[], overlay: readonly OverlayFile[]) => CheckedRules;
  /** `CANDIDATE_RULES_PATH`; undefined: only operators load a candidate. */
  readonly source: RuleSource | undefined;
  /** The overlays of rules. */
  readonly overlay: () => readonly OverlayFile[];
  readonly clock: Clock;
  /** How often files are polled for changes. */
  readonly pollIntervalMs: number;
  /** Calls the function repeatedly, until the returned function is called. */
  readonly every: (intervalMs: number, run: () => void) => () => void;
  /** Called when the state has changed, for the log. */
  readonly onState: (facts: BookFacts) => void;
}

/** The name in messages of a text sent by an operator. */
export const POSTED_NAME = 'candidate';
/** The most bytes of all files of a candidate, which takes memory in addition to the rules in force. */
const MAX_BYTES = 8 * 1024 * 1024;
/** Polls after which unchanged invalid files are checked again, since they may have been unreadable. */
const RETRY_POLLS = 30;

type Input =
  | { readonly origin: 'file'; readonly files: readonly RuleFileState[] }
  | { readonly origin: 'api'; readonly posted: PostedCandidate };

const off: Omit<BookFacts, 'origin'> = {
  ...noCandidate,
  posted: undefined,
  domains: [],
  ruleCount: 0,
  problems: [],
};

/** The candidate of this service: from polled files or sent by an operator, the last one. An invalid one is off. */
export class CandidateBook implements Candidate {
  readonly #options: CandidateBookOptions;
  readonly #listeners: (() => void)[] = [];
  #stop = (): void => {};
  #facts: BookFacts = { ...off, origin: undefined };
  #packed: PackedRules | undefined;
  #input: Input | undefined;
  /** The state of the files at the last poll. */
  #seen: string | undefined;
  #pollsSinceInvalid = 0;
  #isPolling = false;
  #isClosed = false;

  constructor(options: CandidateBookOptions) {
    this.#options = options;
  }

  /** Loads the candidate of the files, and follows them. */
  start(): void {
    const { source, every, pollIntervalMs } = this.#options;
    if (!source) return;
    this.#stop = every(pollIntervalMs, () => void this.#poll(source));
    void this.#poll(source);
  }

  get facts(): BookFacts {
    return this.#facts;
  }

  packed(): PackedRules | undefined {
    return this.#packed;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Loads a candidate that an operator sent: its state is `on` or `wrong` then. */
  load(posted: PostedCandidate): void {
    this.#load({ origin: 'api', posted });
  }

  /** Ends the trial, until files change or an operator sends another candidate. */
  clear(): void {
    this.#input = undefined;
    this.#put({ ...off, origin: this.#facts.origin }, undefined);
  }

  /** The overlay has changed: checks the candidate again. */
  checkAgain(): void {
    if (this.#input) this.#load(this.#input);
  }

  /** Checks one rule file, without effects. */
  check(text: string): CheckedRules {
    return this.#options.check([postedFile(text)], this.#options.overlay());
  }

  close(): void {
    this.#isClosed = true;
    this.#stop();
  }

  async #poll(source: RuleSource): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const { files, state } = await listFiles(source);
      const isDue = state !== this.#seen || this.#mustRetry();
      if (!isDue || this.#isClosed) return;
      this.#seen = state;
      const reason = typeof files === 'string' ? files : await tooLarge(files);
      if (reason === undefined && typeof files !== 'string') this.#load({ origin: 'file', files });
      else this.#refuse(source.description, reason ?? '');
    } finally {
      this.#isPolling = false;
    }
  }

  #mustRetry(): boolean {
    if (this.#facts.state !== 'wrong' || this.#facts.origin !== 'file') return false;
    this.#pollsSinceInvalid++;
    return this.#pollsSinceInvalid >= RETRY_POLLS;
  }

  #load(input: Input): void {
    this.#input = input;
    const posted = input.origin === 'api' ? input.posted : undefined;
    const files = input.origin === 'file' ? input.files : [postedFile(input.posted.text)];
    const checked = this.#options.check(files, this.#options.overlay());
    this.#pollsSinceInvalid = 0;
    const from = { ...off, origin: input.origin, posted };
    if (!checked.ok) return this.#put({ ...from, state: 'wrong', problems: checked.problems }, undefined);
    const { packed, warnings, ruleCount } = checked;
    const domains = packed.map(({ name }) => name);
    const loaded = { loadedAtMs: this.#options.clock(), hash: hashRules(packed), domains, ruleCount };
    this.#put({ ...from, ...loaded, state: 'on', problems: warnings }, packed);
  }

  #refuse(description: string, reason: string): void {
    this.#input = undefined;
    this.#pollsSinceInvalid = 0;
    const problems = [unreadable(description, reason)];
    this.#put({ ...off, state: 'wrong', origin: 'file', problems }, undefined);
  }

  #put(facts: BookFacts, packed: PackedRules | undefined): void {
    this.#facts = facts;
    this.#packed = packed;
    this.#options.onState(facts);
    for (const listener of this.#listeners) listener();
  }
}

/** The checker keeps a parsed file while its state is unchanged. */
const postedFile = (text: string): RuleFileState => ({
  path: POSTED_NAME,
  name: POSTED_NAME,
  text,
  state: createHash('sha256').update(text).digest('base64url'),
});

const unreadable = (file: string, reason: string): Problem => ({
  file,
  line: 1,
  path: '',
  severity: 'error',
  message: `cannot be read: ${reason}`,
});

/** Why files are not read; undefined: they may be. */
async function tooLarge(files: readonly RuleFileState[]): Promise<string | undefined> {
  let bytes = 0;
  for (const { path } of files) {
    const { size } = await stat(path).catch(() => ({ size: 0 })); // reading reports missing files
    bytes += size;
  }
  return bytes > MAX_BYTES ? `the files of a candidate may have at most ${MAX_BYTES} bytes, got ${bytes}` : undefined;
}
