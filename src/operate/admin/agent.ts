import type { Clock } from '../../base/clock.ts';
import type { ProfileKind } from '../../edge/http/profile.ts';
import type { QuotaQuery } from '../../edge/rlqs/quota-report.ts';
import type { QuotaReport } from '../../edge/rlqs/shapes.ts';
import type { Caller } from '../../edge/rls/service.ts';
import type { SharedReport } from '../../edge/sites/shared-counters.ts';
import type { CounterKey } from '../../engine/backends/key.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { UsageBatch, UsagePage, UsageSource } from '../../engine/backends/usage.ts';
import type { Answer } from '../../engine/decide/decide.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import type { ArrivalBatch, ArrivalSample } from '../../lab/advise/arrival-log.ts';
import { SLOT_MS } from '../../lab/sketches/rotating-top.ts';
import type { ListedCounters } from '../answers/counters.ts';
import type { Explanation } from '../answers/explain.ts';
import type { TopKind } from '../answers/views.ts';
import type { TrialReport } from '../candidate/report.ts';
import { Evidence, type EvidenceReport } from '../findings/evidence.ts';
import type { ExplainOptions } from './explain.ts';
import type { CountedDescriptor, CounterChange, CounterSources, ListQuery, NamedCounters } from './named-counters.ts';
import { type Finding, settle } from './problem.ts';
import { type RefusalReport, RefusalSample } from './refusals.ts';
import { type RecordsCall, runRecordsCall } from './remote-records.ts';
import { type RefusedTop, type RuleTop, TopKeys } from './top-keys.ts';
import { Unmatched, type UnmatchedReport } from './unmatched.ts';

/** The questions that the admin API asks each process that answers requests. */
export type AgentQuestion =
  | { readonly kind: 'explain'; readonly request: WireRequest }
  | ({ readonly kind: 'counters' } & CountedDescriptor)
  /** Change every counter of the descriptor. */
  | ({ readonly kind: 'change'; readonly change: CounterChange } & CountedDescriptor)
  /** A page of all counters. */
  | { readonly kind: 'list'; readonly query: ListQuery }
  | { readonly kind: 'unmatched' }
  /** Evidence of mistakes in the configurations of proxies. */
  | { readonly kind: 'evidence' }
  /** `rules`: limits the reply to this many rules, those with the highest totals; `rule`: to this one. */
  | { readonly kind: 'top'; readonly by: TopKind; readonly rules?: number; readonly rule?: string }
  /** The clients with the most refused requests: `keys` of each of `rules` rules. */
  | { readonly kind: 'refused'; readonly rules: number; readonly keys: number }
  | { readonly kind: 'refusals' }
  /** Replace the overrides in force by these. */
  | { readonly kind: 'overrides'; readonly overrides: readonly StandingOverride[] }
  /** These counters have been reset. */
  | { readonly kind: 'forget'; readonly keys: readonly CounterKey[] }
  /** The counters may have room again. */
  | { readonly kind: 'recheck'; readonly keys: readonly CounterKey[] }
  /** The quotas of proxies. */
  | { readonly kind: 'quotas'; readonly query: QuotaQuery }
  /** At most this many counters that sites share. */
  | { readonly kind: 'sites'; readonly count: number }
  /** What the candidate would change, with at most `keys` keys of each rule. `rule`: of this rule alone. */
  | { readonly kind: 'candidate'; readonly keys: number; readonly rule?: string }
  /** The arrivals since the last such question, of the keys in this sample. */
  | ({ readonly kind: 'arrivals' } & ArrivalSample)
  /** Take a profile of the process. */
  | { readonly kind: 'profile'; readonly what: ProfileKind; readonly seconds: number }
  | { readonly kind: 'end_profile' }
  /** Read or change operators' records. */
  | { readonly kind: 'records'; readonly call: RecordsCall }
  /** Take usage from the store: see `UsageSource`. */
  | { readonly kind: 'usage'; readonly call: UsageCall }
  /** Record requests until `untilMs`, in milliseconds since the epoch; absent: changes nothing. */
  | { readonly kind: 'record'; readonly untilMs?: number };

export type AgentReply =
  | { readonly kind: 'explain'; readonly explanation: Explanation }
  | { readonly kind: 'counters'; readonly answer: Finding<NamedCounters> }
  /** The counters after the change. */
  | { readonly kind: 'change'; readonly answer: Finding<NamedCounters> }
  | { readonly kind: 'list'; readonly answer: Finding<ListedCounters> }
  | { readonly kind: 'unmatched'; readonly report: UnmatchedReport }
  | { readonly kind: 'evidence'; readonly report: EvidenceReport }
  | { readonly kind: 'top'; readonly tops: readonly RuleTop[] }
  | { readonly kind: 'refused'; readonly tops: readonly RefusedTop[] }
  /** Undefined: no refusals are kept. */
  | { readonly kind: 'refusals'; readonly report: RefusalReport | undefined }
  | { readonly kind: 'overrides' }
  | { readonly kind: 'forget' }
  | { readonly kind: 'recheck' }
  /** Undefined: RLQS is off. */
  | { readonly kind: 'quotas'; readonly report: QuotaReport | undefined }
  /** Undefined: this is the only site. */
  | { readonly kind: 'sites'; readonly report: SharedReport | undefined }
  /** Undefined: no candidate is being tried. */
  | { readonly kind: 'candidate'; readonly report: TrialReport | undefined }
  /** Undefined: arrivals are not followed. */
  | { readonly kind: 'arrivals'; readonly batch: ArrivalBatch | undefined }
  | { readonly kind: 'profile'; readonly profile: object }
  | { readonly kind: 'end_profile' }
  | { readonly kind: 'records'; readonly answer: Finding<unknown> }
  /** `batches`: those set aside. `page`: of the batch, if it is here. */
  | { readonly kind: 'usage'; readonly batches: readonly UsageBatch[]; readonly page: UsagePage | undefined }
  /** When the recording ends; undefined: RECORD_TO is not set. */
  | { readonly kind: 'record'; readonly untilMs: number | undefined };

/** A call of each store's usage. */
type UsageCall =
  | { readonly method: 'set_aside'; readonly collector: string }
  | { readonly method: 'read'; readonly id: string; readonly after: string | undefined }
  | { readonly method: 'drop'; readonly id: string };

/** The reply to a kind of question. */
export type ReplyTo<Q extends AgentQuestion> = Extract<AgentReply, { kind: Q['kind'] }>;

/** @throws TypeError  the reply is to another question */
export function replyTo<Q extends AgentQuestion>({ kind }: Q, reply: AgentReply): ReplyTo<Q> {
  if (reply.kind !== kind) throw new TypeError(`expected a reply to '${kind}', got one to '${reply.kind}'`);
  return reply as ReplyTo<Q>; // as just checked
}

/** Whether the question changes nothing, so that another process may be asked when one did not reply. */
export function mayAskAgain(question: AgentQuestion): boolean {
  const { kind } = question;
  if (kind === 'records') return question.call.method !== 'append';
  return kind !== 'change' && kind !== 'profile';
}

/** The reply of one process. */
export interface NamedReply<R extends AgentReply = AgentReply> {
  /** `worker 2 (process 4711)`; of a service of one process, `this process`. */
  readonly process: string;
  readonly reply: R;
}

interface AgentOptions extends ExplainOptions, CounterSources {
  readonly decider: ExplainOptions['decider'] & CounterSources['decider'];
  readonly ledger: Pick<Ledger, 'forgetLocally' | 'refusals'>;
  readonly records: Records;
  /** The memory for the tables of top keys; 0: no tables are kept. */
  readonly topKeysBytes: number;
  /** The number of refusals kept; 0: none. */
  readonly refusals: number;
  readonly clock: Clock;
  /** The usage of the counters; absent: none is counted. */
  readonly usage?: readonly UsageSource[] | undefined;
  /** Sets the end of the recording, if given, and returns it. Absent: RECORD_TO is not set. */
  readonly record?: ((untilMs: number | undefined) => number) | undefined;
  /** Takes the arrivals since the last call; absent: arrivals are not followed. */
  readonly arrivals?: ((sample: ArrivalSample) => ArrivalBatch) | undefined;
  /** Absent: RLQS is off. */
  readonly quotas?: ((query: QuotaQuery) => Promise<QuotaReport>) | undefined;
  /** Counters that sites share; absent: this is the only site. */
  readonly sites?: ((count: number) => Promise<SharedReport>) | undefined;
  /** What the candidate would change; undefined: no candidate is being tried. */
  readonly candidate: (keys: number, rule?: string) => TrialReport | undefined;
  /** Calls the function at an interval, until the returned function is called. */
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

// what only some questions need is loaded at the first of them
const loadExplain = () => import('./explain.ts');
const loadCounters = () => import('./named-counters.ts');

async function recordProfile({ what, seconds }: Extract<AgentQuestion, { kind: 'profile' }>, end: AbortSignal) {
  const { takeProfile } = await import('../../edge/http/profile.ts');
  return takeProfile(what, seconds, end);
}

async function callUsage(
  sources: readonly UsageSource[],
  call: UsageCall,
): Promise<Extract<AgentReply, { kind: 'usage' }>> {
  const batches: UsageBatch[] = [];
  let page: UsagePage | undefined;
  for (const source of sources) {
    if (call.method === 'drop') await source.drop(call.id);
    else if (call.method === 'read') page ??= await source.read(call.id, call.after);
    else batches.push(...(await source.setAside(call.collector)));
  }
  return { kind: 'usage', batches, page };
}

/** What one process keeps for operators; answers their questions about it. */
export class AdminAgent {
  readonly #options: AgentOptions;
  readonly #unmatched: Unmatched;
  readonly evidence: Evidence;
  readonly #top: TopKeys | undefined;
  readonly #refusals: RefusalSample | undefined;
  readonly #stops: readonly (() => void)[];
  #profiling: AbortController | undefined;

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#unmatched = new Unmatched();
    this.evidence = new Evidence(options.clock);
    this.#top = options.topKeysBytes > 0 ? new TopKeys(options.topKeysBytes) : undefined;
    this.#refusals = options.refusals > 0 ? new RefusalSample(options.refusals, options.clock) : undefined;
    const rotate = (): void => {
      this.#unmatched.rotate();
      this.evidence.rotate();
      this.#top?.rotate();
    };
    const ofRefusals = this.#refusals;
    const bySecond = ofRefusals ? [options.every(1_000, () => ofRefusals.nextSecond())] : [];
    this.#stops = [options.every(SLOT_MS, rotate), ...bySecond];
  }

  /** To be called with each answer after it has been sent. */
  answered(request: WireRequest, answer: Answer, caller: Caller): void {
    const { domain } = request;
    const descriptors = answer.unmet?.descriptors ?? request.descriptors;
    this.evidence.answered(request, answer, caller);
    this.#unmatched.answered(domain, descriptors, answer);
    this.#top?.answered(descriptors, answer);
    this.#refusals?.answered(domain, descriptors, answer);
  }

  async ask(question: AgentQuestion): Promise<AgentReply> {
    switch (question.kind) {
      case 'explain':
        return { kind: 'explain', explanation: await (await loadExplain()).explain(question.request, this.#options) };
      case 'counters':
        return {
          kind: 'counters',
          answer: await settle((await loadCounters()).readCounters(question, this.#options)),
        };
      case 'change': {
        const { changeCounters } = await loadCounters();
        return { kind: 'change', answer: await settle(changeCounters(question, question.change, this.#options)) };
      }
      case 'list':
        return {
          kind: 'list',
          answer: await settle((await loadCounters()).listCounters(question.query, this.#options)),
        };
      case 'unmatched':
        return { kind: 'unmatched', report: this.#unmatched.report() };
      case 'evidence':
        return { kind: 'evidence', report: this.evidence.report() };
      case 'top':
        return { kind: 'top', tops: (await this.#top?.lists(question.by, question)) ?? [] };
      case 'refused':
        return { kind: 'refused', tops: (await this.#top?.refused(question)) ?? [] };
      case 'refusals':
        return { kind: 'refusals', report: this.#refusals?.report() };
      case 'overrides':
        this.#options.decider.overrides?.replace(question.overrides);
        return { kind: 'overrides' };
      case 'forget':
        for (const key of question.keys) this.#options.ledger.forgetLocally(key);
        return { kind: 'forget' };
      case 'recheck':
        for (const key of question.keys) this.#options.ledger.refusals?.drop(key);
        return { kind: 'recheck' };
      case 'quotas':
        return { kind: 'quotas', report: await this.#options.quotas?.(question.query) };
      case 'sites':
        return { kind: 'sites', report: await this.#options.sites?.(question.count) };
      case 'candidate':
        return { kind: 'candidate', report: this.#options.candidate(question.keys, question.rule) };
      case 'arrivals':
        return { kind: 'arrivals', batch: this.#options.arrivals?.(question) };
      case 'profile':
        this.#profiling = new AbortController();
        return { kind: 'profile', profile: await recordProfile(question, this.#profiling.signal) };
      case 'end_profile':
        this.#profiling?.abort();
        return { kind: 'end_profile' };
      case 'records':
        return { kind: 'records', answer: await settle(runRecordsCall(this.#options.records, question.call)) };
      case 'usage':
        return callUsage(this.#options.usage ?? [], question.call);
      case 'record':
        return { kind: 'record', untilMs: this.#options.record?.(question.untilMs) };
    }
  }

  close(): void {
    for (const stop of this.#stops) stop();
  }
}
