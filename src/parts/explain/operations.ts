import { fields, oneOf } from '../../base/shape.ts';
import { requestFromJson } from '../../edge/wire/json.ts';
import { InvalidJson } from '../../edge/wire/json-reader.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { hashRules } from '../../engine/rules/compile/packed.ts';
import type { NamedReply } from '../../operate/admin/agent.ts';
import { operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { parseJson } from '../../operate/admin/schema.ts';
import type { Scope } from '../../operate/admin/scope.ts';
import type { OpenOperatorPart } from '../../serve/control/part.ts';
import type { Explanation } from '../lab/answers/explain.ts';
import type { QuotasPart } from '../lab/quotas-part.ts';

type Opened = Parameters<OpenOperatorPart>[2]['opened'];

/** The operation that explains the answer to a request. */
export const explainOperations: OpenOperatorPart = (options, _settings, { opened }) => ({
  operations: [
    operation('POST /api/v1/explain', {
      summary: 'the current answer to a request, and the reason; nothing is charged',
      need: 'read',
      domains: 'selected',
      query: explainQuery,
      body: 'any',
      answers: 'The answer in the format of /json, and its explanation.',
      answer: ({ rawBody, query, scope }) =>
        explainRequest(rawBody, query.counted === 'true', { options, scope, opened }),
    }),
  ],
});

const explainQuery = fields(
  {},
  {
    counted: {
      ...oneOf('true', 'false'),
      description: 'true: descriptors may be those of counters, without ids of requests, as lists have them',
    },
  },
);

interface Explaining {
  readonly options: AdminOptions;
  readonly scope: Scope;
  readonly opened: Opened;
}

async function explainRequest(
  body: Buffer,
  isCounted: boolean,
  { options, scope, opened }: Explaining,
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
  const asked = await options.ask({ kind: 'part', part: 'explain', question: { request, isCounted } });
  const replies = asked as readonly NamedReply<Explanation>[]; // by the same capability
  const [first] = replies;
  if (!first) throw new ApiProblem(503, 'no process that answers requests replied in time');
  const own = options.sourced.book.packed();
  const rules = { ...(own && { version: hashRules(own) }), source: options.sourced.description };
  const quotas = opened.get('quotas') as QuotasPart | undefined; // if the part is there
  const descriptors = await Promise.all(
    first.reply.descriptors.map(async (one) => {
      const found = (await quotas?.quotasOf(request.domain, one.entries)) ?? [];
      return found.length > 0 ? { ...one, quotas: found } : one;
    }),
  );
  const explanation: Explanation = { ...first.reply, rules, descriptors };
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
