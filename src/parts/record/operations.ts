import { fields } from '../../base/shape.ts';
import { parseTime, rfc3339 } from '../../base/times.ts';
import { operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { reason, time } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { RecordingState } from './open.ts';

/** Operations on the recording of requests. */
export const recordOperations = (options: AdminOptions) => ({
  operations: [
    operation('GET /api/v1/recording', {
      summary: 'whether requests are recorded (RECORD_TO), and until when',
      need: 'read',
      domains: 'any',
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
        await options.audit.change(change, () => askPart(options, 'record', { untilMs }));
        return after;
      },
    }),
  ],
});

/** @throws ApiProblem  404: RECORD_TO is not set */
async function recordingState(options: AdminOptions): Promise<RecordingState> {
  const states = await askPart<RecordingState>(options, 'record', {});
  if (states.length === 0) throw new ApiProblem(404, 'nothing can be recorded: RECORD_TO is not set');
  const failing = states.find((one) => one.failing !== undefined)?.failing;
  return { untilMs: Math.max(...states.map(({ untilMs }) => untilMs)), failing };
}

const shown = ({ untilMs, failing }: RecordingState, nowMs: number) => ({
  recording: untilMs > nowMs,
  until: untilMs > nowMs && Number.isFinite(untilMs) ? rfc3339(untilMs) : null,
  ...(failing !== undefined && untilMs > nowMs && { failing }),
});
