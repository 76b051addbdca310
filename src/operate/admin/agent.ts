import type { WireRequest } from '../../edge/wire/wire.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { Answer } from '../../engine/decide/decide.ts';
import type { Overrides, StandingOverride } from '../../engine/decide/overrides.ts';
import type { TopKind } from '../answers/views.ts';
import { SLOT_MS } from '../sketches/rotating-top.ts';
import { type Finding, settle } from './problem.ts';
import { type MethodCall, runCall } from './remote-records.ts';
import { type RefusedTop, type RuleTop, type SelectedRules, TopKeys } from './top-keys.ts';
import { Unmatched, type UnmatchedReport } from './unmatched.ts';

/** What the admin API asks each process that answers requests, by kind. */
interface Answering {
  unmatched(question: object): UnmatchedReport;
  /** Those with the highest totals. */
  top(question: { readonly by: TopKind } & SelectedRules): Promise<readonly RuleTop[]>;
  /** The clients with the most refused requests: `keys` of each of `rules` rules. */
  refused(question: { readonly rules: number; readonly keys: number }): Promise<readonly RefusedTop[]>;
  /** Replace the overrides in force by these. */
  overrides(question: { readonly overrides: readonly StandingOverride[] }): void;
  /** Asks an optional capability; undefined: it is off. */
  part(question: {
    readonly part: string;
    readonly question: object;
    readonly isChange?: boolean | undefined;
  }): unknown;
  /** Read or change operators' records. */
  records(question: { readonly call: MethodCall<Records> }): Promise<Finding<unknown>>;
}

type Kind = keyof Answering;
export type AgentQuestion = { [K in Kind]: { readonly kind: K } & Parameters<Answering[K]>[0] }[Kind];

/** The reply to a question, which the question has the type of. */
export interface AgentReply {
  readonly reply: unknown;
}

export type ReplyTo<Q extends AgentQuestion> = Awaited<ReturnType<Answering[Q['kind']]>>;

/** The content of the reply to a question. */
export const replyTo = <Q extends AgentQuestion>(_question: Q, { reply }: AgentReply): ReplyTo<Q> =>
  reply as ReplyTo<Q>; // `Answering` pairs them

/** Whether the question changes nothing, so that another process may be asked when one did not reply. */
export function mayAskAgain(question: AgentQuestion): boolean {
  if (question.kind === 'records') return question.call.method !== 'append';
  return question.kind !== 'part' || !question.isChange;
}

/** The reply of one process. */
export interface NamedReply<R> {
  /** `worker 2 (process 4711)`; of a service of one process, `this process`. */
  readonly process: string;
  readonly reply: R;
}

interface AgentOptions {
  /** The overrides that requests follow. */
  readonly overrides: Pick<Overrides, 'replace'> | undefined;
  readonly records: Records;
  /** The memory for the tables of top keys; 0: no tables are kept. */
  readonly topKeysBytes: number;
  /** Answers a question to an optional capability; undefined: it is off. */
  readonly askPart: (part: string, question: object) => unknown;
  /** Calls the function at an interval, until the returned function is called. */
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

/** What one process keeps for operators; answers their questions about it. */
export class AdminAgent {
  readonly #answering: Answering;
  readonly #options: AgentOptions;
  #unmatched = new Unmatched();
  #top: TopKeys | undefined;
  readonly #stop: () => void;

  constructor(options: AgentOptions) {
    this.#answering = this.#answers(options);
    this.#options = options;
    this.clear();
    this.#stop = options.every(SLOT_MS, () => {
      this.#unmatched.rotate();
      this.#top?.rotate();
    });
  }

  /** Forgets all answers. */
  clear(): void {
    const { topKeysBytes } = this.#options;
    this.#unmatched = new Unmatched();
    this.#top = topKeysBytes > 0 ? new TopKeys(topKeysBytes) : undefined;
  }

  /** To be called with each answer after it has been sent. */
  answered(request: WireRequest, answer: Answer): void {
    const descriptors = answer.unmet?.descriptors ?? request.descriptors;
    this.#unmatched.answered(request.domain, descriptors, answer);
    this.#top?.answered(descriptors, answer);
  }

  async ask(question: AgentQuestion): Promise<AgentReply> {
    const answer = this.#answering[question.kind] as (question: AgentQuestion) => unknown; // of its own kind
    return { reply: await answer(question) };
  }

  close(): void {
    this.#stop();
  }

  #answers(options: AgentOptions): Answering {
    return {
      unmatched: () => this.#unmatched.report(),
      top: async ({ by, ...only }) => (await this.#top?.lists(by, only)) ?? [],
      refused: async (most) => (await this.#top?.refused(most)) ?? [],
      overrides: ({ overrides }) => options.overrides?.replace(overrides),
      part: ({ part, question }) => options.askPart(part, question),
      records: ({ call }) => settle(runCall(options.records, call)),
    };
  }
}
