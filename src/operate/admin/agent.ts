import type { Records } from '../../engine/backends/records.ts';
import type { Overrides, StandingOverride } from '../../engine/decide/overrides.ts';
import { type Finding, settle } from './problem.ts';
import { type MethodCall, runCall } from './remote-records.ts';

/** What the admin API asks each process that answers requests, by kind. */
interface Answering {
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
  /** Answers a question to an optional capability; undefined: it is off. */
  readonly askPart: (part: string, question: object) => unknown;
}

/** Answers the questions of operators about one process. */
export type AdminAgent = (question: AgentQuestion) => Promise<AgentReply>;

export function createAgent({ overrides, records, askPart }: AgentOptions): AdminAgent {
  const answering: Answering = {
    overrides: (question) => overrides?.replace(question.overrides),
    part: ({ part, question }) => askPart(part, question),
    records: ({ call }) => settle(runCall(records, call)),
  };
  return async (question) => {
    const answer = answering[question.kind] as (question: AgentQuestion) => unknown; // of its own kind
    return { reply: await answer(question) };
  };
}
