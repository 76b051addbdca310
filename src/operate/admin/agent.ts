import type { Clock } from '../../base/clock.ts';
import type { ProfileKind } from '../../parts/profile/profile.ts';
import type { Caller } from '../../edge/rls/service.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { UsageSource } from '../../engine/backends/usage.ts';
import type { Answer } from '../../engine/decide/decide.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { SLOT_MS } from '../sketches/rotating-top.ts';
import type { ListedCounters } from '../answers/counters.ts';
import type { Explanation } from '../answers/explain.ts';
import type { TopKind } from '../answers/views.ts';
import type { Evidence, EvidenceReport } from '../../parts/findings/evidence.ts';
import type { ExplainOptions } from '../../parts/explain/explain.ts';
import type { CountedDescriptor, CounterChange, CounterSources, ListQuery, NamedCounters } from '../../parts/counters/named-counters.ts';
import { type Finding, settle } from './problem.ts';
import { type RefusalKind, type RefusalReport, RefusalSample, wasSpared } from '../../parts/refusals/refusals.ts';
import { type MethodCall, runCall } from './remote-records.ts';
import { type RefusedTop, type RuleTop, TopKeys } from './top-keys.ts';
import { Unmatched, type UnmatchedReport } from './unmatched.ts';

/** What the admin API asks each process that answers requests, by kind, and the reply. */
interface Questions {
  readonly explain: Asked<Explanation, { readonly request: WireRequest }>;
  readonly counters: Asked<Finding<NamedCounters>, CountedDescriptor>;
  /** Change every counter of the descriptor. The counters after the change. */
  readonly change: Asked<Finding<NamedCounters>, CountedDescriptor & { readonly change: CounterChange }>;
  /** A page of all counters. */
  readonly list: Asked<Finding<ListedCounters>, { readonly query: ListQuery }>;
  readonly unmatched: Asked<UnmatchedReport>;
  /** Evidence of mistakes in the configurations of proxies. */
  readonly evidence: Asked<EvidenceReport>;
  /** `rules`: limits the reply to this many rules, those with the highest totals; `rule`: to this one. */
  readonly top: Asked<
    readonly RuleTop[],
    { readonly by: TopKind; readonly rules?: number; readonly rule?: string | undefined }
  >;
  /** The clients with the most refused requests: `keys` of each of `rules` rules. */
  readonly refused: Asked<readonly RefusedTop[], { readonly rules: number; readonly keys: number }>;
  /** Requests that were refused, or would have been. Undefined: none are kept. */
  readonly refusals: Asked<RefusalReport | undefined, { readonly of: RefusalKind }>;
  /** Replace the overrides in force by these. */
  readonly overrides: Asked<void, { readonly overrides: readonly StandingOverride[] }>;
  /** These counters have been reset. */
  readonly forget: Asked<void, { readonly keys: readonly CounterKey[] }>;
  /** The counters may have room again. */
  readonly recheck: Asked<void, { readonly keys: readonly CounterKey[] }>;
  /** Asks an optional capability; undefined: it is off. */
  readonly part: Asked<unknown, { readonly part: string; readonly question: object }>;
  /** Take a profile of the process. */
  readonly profile: Asked<object, { readonly what: ProfileKind; readonly seconds: number }>;
  readonly end_profile: Asked<void>;
  /** Read or change operators' records. */
  readonly records: Asked<Finding<unknown>, { readonly call: MethodCall<Records> }>;
  /** Take usage from the store. The reply has what each source returned. */
  readonly usage: Asked<readonly unknown[], { readonly call: MethodCall<UsageSource> }>;
}

/** A question with these fields, and its reply. */
interface Asked<R, F = object> {
  readonly fields: F;
  readonly reply: R;
}

type Kind = keyof Questions;
export type AgentQuestion = { [K in Kind]: { readonly kind: K } & Questions[K]['fields'] }[Kind];

/** The reply to a question, which the question has the type of. */
export interface AgentReply {
  readonly reply: unknown;
}

export type ReplyTo<Q extends AgentQuestion> = Questions[Q['kind']]['reply'];

/** The content of the reply to a question. */
export const replyTo = <Q extends AgentQuestion>(_question: Q, { reply }: AgentReply): ReplyTo<Q> =>
  reply as ReplyTo<Q>; // `Answering` pairs them

/** Whether the question changes nothing, so that another process may be asked when one did not reply. */
export function mayAskAgain(question: AgentQuestion): boolean {
  const { kind } = question;
  if (kind === 'records') return question.call.method !== 'append';
  return kind !== 'change' && kind !== 'profile';
}

/** The reply of one process. */
export interface NamedReply<R> {
  /** `worker 2 (process 4711)`; of a service of one process, `this process`. */
  readonly process: string;
  readonly reply: R;
}

interface AgentOptions extends ExplainOptions, CounterSources {
  readonly decider: ExplainOptions['decider'] & CounterSources['decider'];
  readonly ledger: Pick<Ledger, 'forgetLocally' | 'recheck'>;
  readonly records: Records;
  /** The memory for the tables of top keys; 0: no tables are kept. */
  readonly topKeysBytes: number;
  /** The number of refusals kept; 0: none. */
  readonly refusals: number;
  readonly clock: Clock;
  /** Of mistakes in the configurations of proxies. */
  readonly evidence: Evidence;
  /** The usage of the counters; absent: none is counted. */
  readonly usage?: readonly UsageSource[] | undefined;
  /** Answers a question to an optional capability; undefined: it is off. */
  readonly askPart: (part: string, question: object) => unknown;
  /** Calls the function at an interval, until the returned function is called. */
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

/** Requests of each kind are kept on their own, so that neither replace the other. */
const createSamples = ({ refusals, clock }: Pick<AgentOptions, 'refusals' | 'clock'>) =>
  refusals > 0
    ? {
        refused: new RefusalSample(refusals, clock),
        would_refuse: new RefusalSample(refusals, clock, wasSpared),
      }
    : undefined;

// what only some questions need is loaded at the first of them
const loadExplain = () => import('../../parts/explain/explain.ts');
const loadCounters = () => import('../../parts/counters/named-counters.ts');

/** What one process keeps for operators; answers their questions about it. */
export class AdminAgent {
  readonly evidence: Evidence;
  readonly #answering: Answering;
  readonly #options: AgentOptions;
  #unmatched = new Unmatched();
  #top: TopKeys | undefined;
  #refusals: Readonly<Record<RefusalKind, RefusalSample>> | undefined;
  readonly #stops: readonly (() => void)[];
  #profiling: AbortController | undefined;

  constructor(options: AgentOptions) {
    this.#answering = this.#answers(options);
    this.#options = options;
    this.evidence = options.evidence;
    this.clear();
    const rotate = (): void => {
      this.#unmatched.rotate();
      this.evidence.rotate();
      this.#top?.rotate();
    };
    const endSecond = (): void => {
      for (const sample of Object.values(this.#refusals ?? {})) sample.nextSecond();
    };
    this.#stops = [options.every(SLOT_MS, rotate), ...(this.#refusals ? [options.every(1_000, endSecond)] : [])];
  }

  /** Forgets all answers. */
  clear(): void {
    const { topKeysBytes } = this.#options;
    this.#unmatched = new Unmatched();
    this.evidence.clear();
    this.#top = topKeysBytes > 0 ? new TopKeys(topKeysBytes) : undefined;
    this.#refusals = createSamples(this.#options);
  }

  /** To be called with each answer after it has been sent. */
  answered(request: WireRequest, answer: Answer, caller: Caller): void {
    const { domain } = request;
    const descriptors = answer.unmet?.descriptors ?? request.descriptors;
    this.evidence.answered(request, answer, caller);
    this.#unmatched.answered(domain, descriptors, answer);
    this.#top?.answered(descriptors, answer);
    this.#refusals?.refused.answered(domain, descriptors, answer);
    this.#refusals?.would_refuse.answered(domain, descriptors, answer);
  }

  async ask(question: AgentQuestion): Promise<AgentReply> {
    const answer = this.#answering[question.kind] as (question: AgentQuestion) => unknown; // of its own kind
    return { reply: await answer(question) };
  }

  close(): void {
    for (const stop of this.#stops) stop();
  }

  #answers(options: AgentOptions): Answering {
    return {
      explain: async ({ request }) => (await loadExplain()).explain(request, options),
      counters: async (descriptor) => settle((await loadCounters()).readCounters(descriptor, options)),
      change: async (question) => settle((await loadCounters()).changeCounters(question, question.change, options)),
      list: async ({ query }) => settle((await loadCounters()).listCounters(query, options)),
      unmatched: () => this.#unmatched.report(),
      evidence: () => this.evidence.report(),
      top: async ({ by, ...only }) => (await this.#top?.lists(by, only)) ?? [],
      refused: async (most) => (await this.#top?.refused(most)) ?? [],
      refusals: ({ of }) => this.#refusals?.[of].report(),
      overrides: ({ overrides }) => options.decider.overrides?.replace(overrides),
      forget({ keys }) {
        for (const key of keys) options.ledger.forgetLocally(key);
      },
      recheck({ keys }) {
        for (const key of keys) options.ledger.recheck(key);
      },
      part: ({ part, question }) => options.askPart(part, question),
      profile: async ({ what, seconds }) => {
        this.#profiling = new AbortController();
        const { signal } = this.#profiling;
        return (await import('../../parts/profile/profile.ts')).takeProfile(what, seconds, signal);
      },
      end_profile: () => this.#profiling?.abort(),
      records: ({ call }) => settle(runCall(options.records, call)),
      usage: ({ call }) => Promise.all((options.usage ?? []).map((source) => runCall(source, call))),
    };
  }
}

/** Answers each kind of question. */
type Answering = {
  readonly [K in Kind]: (question: Questions[K]['fields']) => Questions[K]['reply'] | Promise<Questions[K]['reply']>;
};
