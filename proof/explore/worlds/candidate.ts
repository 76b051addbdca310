import type { Observer } from '../../../src/edge/rls/service.ts';
import { hashRules, type PackedRules } from '../../../src/engine/rules/compile/packed.ts';
import { checkRuleFiles } from '../../../src/engine/rules/reload/load.ts';
import { type FollowedCandidate, followCandidate } from '../../../src/parts/candidate/followed.ts';
import type { Trial } from '../../../src/parts/candidate/trial.ts';
import { EVERYTHING } from '../data-world.ts';
import { Hasher } from '../hasher.ts';
import { Runtime } from '../runtime.ts';
import type { Protocol, Step, World } from '../world.ts';

const rulesOf = (perMinute: number): PackedRules => {
  const text = `domain: demo\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: ${perMinute} }\n`;
  const checked = checkRuleFiles([{ path: 'rules', name: 'rules', text }], { mergeDomains: false });
  if (!checked.ok) throw new TypeError('the rules of this world are valid');
  return checked.packed;
};
/** Live rules and candidates. */
const live = [rulesOf(1), rulesOf(2)];
const candidates = [undefined, rulesOf(3), rulesOf(4)];
const names = ['no candidate', 'candidate 1', 'candidate 2'];

interface OpenedTrial {
  hash: string;
  /** Whether the live rules have changed since its figures began. */
  isStale: boolean;
  answers: number;
  closes: number;
}

/** A decider that follows the candidate of a control process. */
class CandidateWorld implements World {
  readonly #runtime = new Runtime(0);
  #received: PackedRules | undefined;
  #onReceived = (): void => {};
  readonly #follower: FollowedCandidate;
  readonly #observer: Observer;
  readonly #trials: OpenedTrial[] = [];
  #waiting: { readonly text: string; readonly resolve: () => void }[] = [];
  #messages: number[] = [];
  #liveRules = 0;
  #onLive = (): void => {};
  #last = 0;
  #counted = 0;
  #answered = 0;
  #isClosed = false;
  #history: readonly [number, number] = [0, 0];
  readonly #hash = new Hasher();
  readonly #left = { posts: 3, reloads: 1, calls: 2, kills: 1 };
  #failed: string | undefined;

  constructor() {
    this.#observer = { answered: () => void this.#counted++, failed: () => {} };
    this.#follower = followCandidate({
      candidate: {
        packed: () => this.#received,
        onChange: (listener) => {
          this.#onReceived = listener;
        },
      },
      book: {
        packed: () => live[this.#liveRules],
        onChange: (listener) => {
          this.#onLive = listener;
        },
      },
      split: undefined,
      observer: this.#observer,
      openTrial: () => this.#openTrial(),
      onError: (error) => {
        this.#failed ??= `an error: ${String(error)}`;
      },
    });
  }

  async #openTrial(): Promise<Trial> {
    await this.#wait('the counters of a trial are opened');
    const opened: OpenedTrial = { hash: '', isStale: false, answers: 0, closes: 0 };
    this.#trials.push(opened);
    const trial: Partial<Trial> = {
      follow: (_, hash) => {
        opened.hash = hash;
        opened.isStale = false;
      },
      beginAnew: () => {
        opened.isStale = false;
      },
      answered: () => {
        if (opened.closes > 0) this.#failed ??= 'an ended trial is told of an answer';
        opened.answers++;
      },
      close: async () => {
        if (++opened.closes > 1) this.#failed ??= 'a trial is closed twice';
        await this.#wait('the counters of a trial are closed');
      },
    };
    return trial as Trial; // what a follower uses of it
  }

  #wait(text: string): Promise<void> {
    return new Promise((resolve) => void this.#waiting.push({ text, resolve }));
  }

  steps(): readonly Step[] {
    const steps: Step[] = [];
    const add = (line: Step['line'], act: () => void): void => {
      steps.push({ line, touches: EVERYTHING, run: () => this.#run(line.text, act) });
    };
    const { posts, reloads, calls, kills } = this.#left;
    if (posts > 0)
      for (const [at, name] of names.entries())
        if (at !== this.#last) add({ from: 'control', text: `sends ${name}` }, () => this.#post(at));
    if (kills > 0) add({ from: 'control', text: 'is killed, and starts again' }, () => this.#kill());
    const [next] = this.#messages;
    if (next !== undefined) add({ from: 'control', to: 'decider', text: names[next] ?? '' }, () => this.#deliver());
    if (reloads > 0 && !this.#isClosed) add({ from: 'decider', text: 'has other live rules' }, () => this.#reload());
    if (calls > 0) add({ from: 'decider', text: 'answers a call' }, () => this.#answer());
    for (const [at, { text }] of this.#waiting.entries()) add({ from: 'decider', text }, () => this.#settle(at));
    if (!this.#isClosed) add({ from: 'decider', text: 'is shut down' }, () => this.#close());
    return steps;
  }

  #run(event: string, act: () => void): void {
    act();
    this.#runtime.drain();
    const hash = this.#hash.begin();
    hash.numbers(this.#history);
    hash.text(event);
    this.#history = this.#waiting.length === 0 ? [0, 0] : [hash.low, hash.high];
  }

  #post(at: number): void {
    this.#left.posts--;
    this.#last = at;
    this.#messages.push(at);
  }

  /** Messages on their way are lost; the new process sends the candidate that operators left. */
  #kill(): void {
    this.#left.kills--;
    this.#messages = [this.#last];
  }

  #deliver(): void {
    const at = this.#messages.shift() ?? 0;
    this.#received = candidates[at];
    this.#onReceived();
  }

  #reload(): void {
    this.#left.reloads--;
    this.#liveRules = 1;
    for (const trial of this.#trials) trial.isStale = trial.closes === 0;
    this.#onLive();
  }

  #answer(): void {
    this.#left.calls--;
    this.#answered++;
    const [request, answer, caller] = [{}, {}, { timeoutMs: 0 }] as unknown as Parameters<Observer['answered']>;
    this.#observer.answered(request, answer, caller);
  }

  #settle(at: number): void {
    this.#waiting.splice(at, 1)[0]?.resolve();
  }

  #close(): void {
    this.#isClosed = true;
    void this.#follower.close();
  }

  describe(hash: Hasher): void {
    hash.numbers([
      ...this.#history,
      this.#liveRules,
      this.#last,
      this.#counted,
      this.#answered,
      this.#isClosed ? 1 : 0,
    ]);
    hash.value([this.#left, this.#messages, this.#trials, this.#waiting.map(({ text }) => text)]);
    hash.numbers([candidates.indexOf(this.#received), this.#follower.isTried() ? 1 : 0]);
  }

  isQuiet(): boolean {
    return this.#messages.length + this.#waiting.length === 0;
  }

  violation(): string | undefined {
    if (this.#failed !== undefined) return this.#failed;
    if (this.#counted !== this.#answered) return `${this.#answered} calls were answered, and ${this.#counted} counted`;
    const open = this.#trials.filter(({ closes }) => closes === 0);
    if (open.length > 1) return 'two trials are open';
    if (open.some(({ isStale }) => isStale)) return 'the figures of a trial mix two versions of the live rules';
    return undefined;
  }

  end(): string | undefined {
    while (this.#messages.length > 0 || this.#waiting.length > 0) {
      if (this.#messages.length > 0) this.#run('', () => this.#deliver());
      while (this.#waiting.length > 0) this.#run('', () => this.#settle(0));
    }
    const violation = this.violation();
    if (violation !== undefined) return violation;
    const packed = this.#received;
    const isTried = packed !== undefined && !this.#isClosed;
    const open = this.#trials.filter(({ closes }) => closes === 0);
    if (this.#follower.isTried() !== isTried || open.length !== (isTried ? 1 : 0))
      return isTried ? 'the candidate is not tried' : 'a withdrawn candidate is still tried';
    if (packed && isTried && open[0]?.hash !== hashRules(packed)) return 'another candidate than the last one is tried';
    return undefined;
  }
}

export const candidate: Protocol = {
  name: "candidate's swap",
  code: 'parts/candidate/followed.ts, engine/rules/reload/in-force.ts',
  parties: ['control', 'decider'],
  invariants: [
    'at most one trial is open',
    'an ended trial is told of nothing',
    'each answer is counted once',
    'the last candidate is tried, or none',
  ],
  depth: 8,
  longDepth: 13,
  create: () => new CandidateWorld(),
};
