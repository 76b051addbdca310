import { emitWarning, env } from 'node:process';
import { bareDecision, type Decision, hasNoRule } from '../decision.ts';
import { WeirUnavailable } from '../errors.ts';
import type { Descriptor } from '../options.ts';
import { OversizedDescriptor } from '../request.ts';
import { createAddressOf, type Origin } from './address.ts';
import { type Field, fieldsOf, violatedPolicies } from './headers.ts';
import { checkLimitOptions, type LimitOptions } from './options.ts';

/** The outcome of a request. */
export type Passage = Passed | Refused;

/** A request that may proceed. */
export interface Passed {
  readonly ok: true;
  readonly fields: readonly Field[];
  /** Counts the final cost of the request; `cost` is not called for unlimited requests. Never rejects. */
  settle(cost: () => number | undefined | Promise<number | undefined>): Promise<void>;
}

/** A request that is refused, and how to answer it. */
export interface Refused {
  readonly ok: false;
  readonly fields: readonly Field[];
  /** 429; 503 if the service has not answered; 400 if the request cannot be counted by its key. */
  readonly status: number;
  /** application/problem+json */
  readonly problem: Readonly<Record<string, unknown>>;
  /** The body of the response, and its content type: those of the rule that refuses, else the problem document. */
  readonly body: string;
  readonly contentType: string;
  readonly decision: Decision;
}

/** The type of the document in `problem`. */
export const PROBLEM_TYPE = 'application/problem+json';

/** @see https://www.rfc-editor.org/rfc/rfc9457 */
const PROBLEMS = 'https://iana.org/assignments/http-problem-types';

/** Limits a request, independent of the framework. */
export type Guard<R> = (request: R, origin: Origin) => Promise<Passage>;

export function createGuard<R>(options: LimitOptions<R>): Guard<R> {
  checkLimitOptions(options);
  const { client, domain, key, skip, cost, headers = 'both', timeoutMs, onError } = options;
  const addressOf = createAddressOf(options.trustProxy, options.ipv6Prefix);
  const warn = createWarning(domain);
  const callOptions = { ...(timeoutMs !== undefined && { timeoutMs }), ...(onError !== undefined && { onError }) };
  return async (request, origin) => {
    if (await skip?.(request)) return unlimited;
    const address = addressOf(origin);
    const descriptors = key ? await key(request, address) : { remote_address: address };
    if (descriptors === undefined) return unlimited;
    const hits = cost ? await cost(request) : 1;
    const decision = await client.limit(domain, descriptors, { hits, ...callOptions }).catch(refuseOversized);
    if (isInvalid(decision)) return refused({ fields: [], status: 400, problem: badRequest, decision });
    if (hasNoRule(decision)) warn(descriptors, decision);
    const fields = fieldsOf(decision, headers);
    if (!decision.ok) return refusal(decision, fields);
    return {
      ok: true,
      fields,
      async settle(total) {
        try {
          const rest = Math.round((await total()) ?? hits) - hits;
          if (rest !== 0) await client.limit(domain, descriptors, { hits: rest, ...callOptions });
        } catch {
          // The response has been sent: a cost that throws or is invalid is ignored.
        }
      },
    };
  };
}

const unlimited: Passed = { ok: true, fields: [], settle: async () => {} };

/** Maximum warnings of a guard. */
const MAX_WARNINGS = 10;

/** Creates the function that warns once of each kind of requests that nothing limits; never in production. */
function createWarning(domain: string): (descriptors: Descriptor | readonly Descriptor[], decision: Decision) => void {
  if (env.NODE_ENV === 'production') return () => {};
  const warned = new Set<string>();
  return (descriptors, { because }) => {
    const keys = [descriptors].flat().map((descriptor) => Object.keys(descriptor).join(', '));
    const text = keys.map((names) => `{ ${names} }`).join(' or ');
    if (warned.size >= MAX_WARNINGS || warned.has(text)) return;
    warned.add(text);
    emitWarning(`requests with ${text} are not limited: ${because}, in the domain ${domain}`, 'WeirWarning');
  };
}

const badRequest = { type: 'about:blank', title: 'Bad Request', status: 400 };

function refuseOversized(error: unknown): Decision {
  if (error instanceof OversizedDescriptor) return bareDecision(false, 'client_deny', error);
  throw error;
}

/** The service cannot count by this key. A client that sends such a key must not pass because of `onError`. */
const isInvalid = ({ error }: Decision): boolean =>
  error instanceof OversizedDescriptor || (error instanceof WeirUnavailable && error.kind === 'invalid');

function refusal(decision: Decision, fields: readonly Field[]): Refused {
  const isUnanswered = decision.source === 'client_deny';
  const status = isUnanswered ? 503 : 429;
  const problem = isUnanswered
    ? {
        type: `${PROBLEMS}#temporary-reduced-capacity`,
        title: 'Request cannot be satisfied due to temporary server capacity constraints',
        status,
      }
    : {
        type: `${PROBLEMS}#quota-exceeded`,
        title: 'Request cannot be satisfied as assigned quota has been exceeded',
        status,
        'violated-policies': violatedPolicies(decision),
      };
  return refused({ fields, status, problem, decision });
}

/** With the rule's response, if it has one. */
function refused(refusal: Pick<Refused, 'fields' | 'status' | 'problem' | 'decision'>): Refused {
  const { fields, problem, decision } = refusal;
  const { body } = decision;
  if (body === undefined) return { ok: false, ...refusal, body: JSON.stringify(problem), contentType: PROBLEM_TYPE };
  const isType = ([name]: Field): boolean => name.toLowerCase() === 'content-type';
  const [, contentType = 'text/plain; charset=utf-8'] = fields.find(isType) ?? [];
  return { ok: false, ...refusal, fields: fields.filter((field) => !isType(field)), body, contentType };
}
