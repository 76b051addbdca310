import { hashRules } from '../../engine/rules/compile/packed.ts';
import { requestFromJson } from '../../engine/wire/json.ts';
import { InvalidJson } from '../../engine/wire/json-reader.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import type { Explanation } from '../answers/explain.ts';
import type { NamedReply } from './agent.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { ApiProblem } from './problem.ts';
import { parseJson } from './schema.ts';
import type { Scope } from './scope.ts';

/** Functions that add to the explanation of a request. */
export type Explains = readonly ((explanation: Explanation, domain: string) => Promise<Explanation>)[];

/** The operation that explains the answer to a request. */
export function explainOperations(options: AdminOptions, explains: Explains): readonly ApiOperation[] {
  return [
    operation('POST /api/v1/explain', {
      summary: 'the current answer to a request, and the reason; nothing is charged',
      need: 'read',
      domains: 'selected',
      body: 'any',
      answers: 'The answer in the format of /json, and its explanation.',
      answer: ({ rawBody, scope }) => explainRequest(rawBody, scope, options, explains),
    }),
  ];
}

async function explainRequest(
  body: Buffer,
  scope: Scope,
  options: AdminOptions,
  explains: Explains,
): Promise<Explanation> {
  let request: WireRequest;
  try {
    request = requestFromJson(body);
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    parseJson(body); // refuses a body that is not JSON at all
    return { status: 400, error: error.message, descriptors: [] };
  }
  scope.require({ domain: request.domain });
  const replies = await options.ask({ kind: 'explain', request });
  const [first] = replies;
  if (!first) throw new ApiProblem(503, 'no process that answers requests replied in time');
  const own = options.sourced.book.packed();
  const rules = { ...(own && { version: hashRules(own) }), source: options.sourced.description };
  let explanation: Explanation = { ...first.reply, rules };
  for (const explain of explains) explanation = await explain(explanation, request.domain);
  return options.settings.workers > 1 ? { ...explanation, workers: replies.map(ofWorker) } : explanation;
}

/** What one of several processes answers. */
const ofWorker = ({ process, reply: explanation }: NamedReply<Explanation>) => ({
  process,
  status: explanation.status,
  ...(explanation.answer && { answer: explanation.answer }),
  ...(explanation.error !== undefined && { error: explanation.error }),
  sources: [...new Set(explanation.descriptors.flatMap(({ limits }) => limits.flatMap((limit) => limit.source ?? [])))],
});
