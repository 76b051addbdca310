import type { Clock } from '../../base/clock.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import type { AgentQuestion, NamedReply, ReplyTo } from './agent.ts';
import { type ApiOperation, operation } from './api.ts';
import type { Audit } from './audit.ts';
import { noQuery, reason } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { object } from './schema.ts';

interface RecordOptions {
  readonly audit: Audit;
  readonly clock: Clock;
  /** Asks every process that answers requests. */
  readonly ask: <Q extends AgentQuestion>(question: Q) => Promise<readonly NamedReply<ReplyTo<Q>>[]>;
}

const PATH = '/api/v1/recording';

/** Operations on the recording of requests. */
export function recordOperations(options: RecordOptions): readonly ApiOperation[] {
  return [
    operation({
      path: PATH,
      method: 'GET',
      summary: 'whether requests are recorded (RECORD_TO), and until when',
      need: 'read',
      query: noQuery,
      answers: '`recording`, and `until`: null if the recording has no end.',
      answer: async () => shown(await untilOf(options), options.clock()),
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
        const before = shown(await untilOf(options), nowMs);
        const after = shown(untilMs, nowMs);
        const change = { who: client.name, change: 'recording', reason: body.reason, what: {}, before, after };
        await options.audit.change(change, () => options.ask({ kind: 'record', untilMs }));
        return after;
      },
    }),
  ];
}

/** @throws ApiProblem  404: RECORD_TO is not set */
async function untilOf({ ask }: RecordOptions): Promise<number> {
  const replies = await ask({ kind: 'record' });
  const ends = replies.flatMap(({ reply: { untilMs } }) => (untilMs === undefined ? [] : [untilMs]));
  if (ends.length === 0) throw new ApiProblem(404, 'nothing can be recorded: RECORD_TO is not set');
  return Math.max(...ends);
}

const shown = (untilMs: number, nowMs: number) => ({
  recording: untilMs > nowMs,
  until: untilMs > nowMs && Number.isFinite(untilMs) ? rfc3339(untilMs) : null,
});
