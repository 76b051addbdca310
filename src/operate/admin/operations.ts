import { fields } from '../../base/shape.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import { adviceOperations } from './advice-operations.ts';
import type { RecordingState } from './agent.ts';
import { type ApiOperation, operation } from './api.ts';
import { candidateOperations } from './candidate-operations.ts';
import { counterOperations } from './counter-operations.ts';
import { explainOperations } from './explain-operations.ts';
import { offenderOperations } from './offender-operations.ts';
import type { AdminOptions } from './options.ts';
import { overrideOperations } from './override-operations.ts';
import { pageSize, reason, time } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { quotaOperations } from './quota-operations.ts';
import { ruleTextOperations } from './rule-text-operations.ts';
import { sessionOperations } from './session-operations.ts';
import { siteOperations } from './site-operations.ts';
import { usageOperations } from './usage-operations.ts';
import { viewOperations } from './view-operations.ts';

/** All operations of the admin API. @param more  those of the console */
export function adminOperations(options: AdminOptions, more: readonly ApiOperation[]): readonly ApiOperation[] {
  const operations: ApiOperation[] = [
    operation('GET /api/v1/openapi.json', {
      summary: 'this API, as an OpenAPI document',
      need: 'open',
      answers: 'The document.',
      answer: async () => (await import('./openapi.ts')).openApiDocument(operations, options.version),
    }),
    ...explainOperations(options),
    ...viewOperations(options),
    ...offenderOperations(options),
    ...counterOperations(options),
    ...auditOperations(options),
    ...overrideOperations(options),
    ...recordOperations(options),
    ...quotaOperations(options),
    ...candidateOperations(options),
    ...ruleTextOperations(options),
    ...sessionOperations(options),
    ...siteOperations(options),
    ...adviceOperations(options),
    ...usageOperations(options),
    ...more,
  ];
  return operations;
}

/** Lists the changes that operators made. */
function auditOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/audit', {
      summary: 'the newest changes',
      need: 'read',
      query: fields({}, { count: pageSize(1_000) }),
      answers: 'Changes, the newest first.',
      answer: async ({ query: { count = 100 } }) => ({ changes: await options.audit.latest(count) }),
    }),
  ];
}

/** Operations on the recording of requests. */
function recordOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/recording', {
      summary: 'whether requests are recorded (RECORD_TO), and until when',
      need: 'read',
      answers:
        '`recording`, and `until`: null if the recording has no end. `failing`, since when and why, while a process cannot write it.',
      answer: async () => shown(await recordingState(options), options.clock()),
    }),
    operation('PUT /api/v1/recording', {
      summary: 'records requests in every process until a time; a time in the past ends the recording',
      need: 'operate',
      body: fields({ until: { ...time, description: 'RFC 3339' }, reason }),
      answers: 'The same as GET.',
      answer: async ({ client, body }) => {
        const untilMs = parseTime(body.until);
        if (untilMs === undefined)
          throw new ApiProblem(400, `until must be a time such as 2026-01-31T12:00:00Z, got '${body.until}'`);
        const nowMs = options.clock();
        const state = await recordingState(options);
        const before = shown(state, nowMs);
        const after = shown({ ...state, untilMs }, nowMs);
        const change = { who: client.name, change: 'recording', reason: body.reason, what: {}, before, after };
        await options.audit.change(change, () => options.ask({ kind: 'record', untilMs }));
        return after;
      },
    }),
  ];
}

/** @throws ApiProblem  404: RECORD_TO is not set */
async function recordingState({ ask }: AdminOptions): Promise<RecordingState> {
  const replies = await ask({ kind: 'record' });
  const states = replies.flatMap(({ reply }) => reply ?? []);
  if (states.length === 0) throw new ApiProblem(404, 'nothing can be recorded: RECORD_TO is not set');
  const failing = states.find((one) => one.failing !== undefined)?.failing;
  return { untilMs: Math.max(...states.map(({ untilMs }) => untilMs)), failing };
}

const shown = ({ untilMs, failing }: RecordingState, nowMs: number) => ({
  recording: untilMs > nowMs,
  until: untilMs > nowMs && Number.isFinite(untilMs) ? rfc3339(untilMs) : null,
  ...(failing !== undefined && untilMs > nowMs && { failing }),
});
