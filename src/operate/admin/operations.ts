import type { Clock } from '../../base/clock.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from './agent.ts';
import { type ApiOperation, operation } from './api.ts';
import type { Audit } from './audit.ts';
import { candidateOperations } from './candidate-operations.ts';
import { counterOperations } from './counter-operations.ts';
import { explainOperations } from './explain-operations.ts';
import { offenderOperations } from './offender-operations.ts';
import type { AdminOptions } from './options.ts';
import { overrideOperations } from './override-operations.ts';
import { noQuery, pageSize, reason } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { quotaOperations } from './quota-operations.ts';
import { ruleTextOperations } from './rule-text-operations.ts';
import { object } from './schema.ts';
import { viewOperations } from './view-operations.ts';

/** All operations of the admin API. */
export function adminOperations(options: AdminOptions): readonly ApiOperation[] {
  const operations: ApiOperation[] = [
    operation({
      path: '/api/v1/openapi.json',
      method: 'GET',
      summary: 'this API, as an OpenAPI document',
      need: 'open',
      query: noQuery,
      answers: 'The document.',
      answer: async () => (await import('./openapi.ts')).openApiDocument(operations, options.version),
    }),
    ...explainOperations(options),
    ...viewOperations(options),
    ...offenderOperations(options),
    ...counterOperations(options),
    ...auditOperations(options.audit),
    ...overrideOperations(options),
    ...recordOperations(options),
    ...quotaOperations(options),
    ...candidateOperations(options),
    ...ruleTextOperations(options),
    ...options.more,
  ];
  return operations;
}

/** Lists the changes that operators made. */
function auditOperations(log: Pick<Audit, 'latest'>): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/audit',
      method: 'GET',
      summary: 'the newest changes',
      need: 'read',
      query: object({ count: pageSize(1_000) }, []),
      answers: 'Changes, the newest first.',
      answer: async ({ query: { count = 100 } }) => ({ changes: await log.latest(count) }),
    }),
  ];
}

interface RecordOptions {
  readonly audit: Audit;
  readonly clock: Clock;
  /** Asks every process that answers requests. */
  readonly ask: <Q extends AgentQuestion>(question: Q) => Promise<readonly NamedReply<ReplyTo<Q>>[]>;
}

const PATH = '/api/v1/recording';

/** Operations on the recording of requests. */
function recordOperations(options: RecordOptions): readonly ApiOperation[] {
  return [
    operation({
      path: PATH,
      method: 'GET',
      summary: 'whether requests are recorded (RECORD_TO), and until when',
      need: 'read',
      query: noQuery,
      answers: '`recording`, and `until`: null if the recording has no end.',
      answer: async () => shown(await recordingEnd(options), options.clock()),
    }),
    operation({
      path: PATH,
      method: 'PUT',
      summary: 'records requests in every process until a time; a time in the past ends the recording',
      need: 'operate',
      query: noQuery,
      body: object({ until: { type: 'string', maxLength: 40, description: 'RFC 3339' }, reason }, ['until', 'reason']),
      answers: 'The same as GET.',
      answer: async ({ client, body }) => {
        const untilMs = parseTime(body.until);
        if (untilMs === undefined)
          throw new ApiProblem(400, `until must be a time such as 2026-01-31T12:00:00Z, got '${body.until}'`);
        const nowMs = options.clock();
        const before = shown(await recordingEnd(options), nowMs);
        const after = shown(untilMs, nowMs);
        const change = { who: client.name, change: 'recording', reason: body.reason, what: {}, before, after };
        await options.audit.change(change, () => options.ask({ kind: 'record', untilMs }));
        return after;
      },
    }),
  ];
}

/** @throws ApiProblem  404: RECORD_TO is not set */
async function recordingEnd({ ask }: RecordOptions): Promise<number> {
  const replies = await ask({ kind: 'record' });
  const ends = replies.flatMap(({ reply: { untilMs } }) => (untilMs === undefined ? [] : [untilMs]));
  if (ends.length === 0) throw new ApiProblem(404, 'nothing can be recorded: RECORD_TO is not set');
  return Math.max(...ends);
}

const shown = (untilMs: number, nowMs: number) => ({
  recording: untilMs > nowMs,
  until: untilMs > nowMs && Number.isFinite(untilMs) ? rfc3339(untilMs) : null,
});
