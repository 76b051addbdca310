import type { Asker } from '../../base/slices.ts';
import { requestFromJson } from '../../engine/wire/json.ts';
import { InvalidJson } from '../../engine/wire/json-reader.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { type ApiOperation, operation } from './api.ts';
import { type ExplainAnswer, explain } from './explain.ts';
import type { AdminOptions } from './options.ts';
import { noQuery } from './parameters.ts';
import { quotasOf } from './quota-operations.ts';
import { parseJson } from './schema.ts';

/** The operation that explains the answer to a request. */
export function explainOperations(options: AdminOptions): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/explain',
      method: 'POST',
      summary: 'the current answer to a request, and the reason; nothing is charged',
      need: 'read',
      query: noQuery,
      body: 'any',
      answers: 'The answer in the format of /json, and its explanation.',
      answer: ({ rawBody, request }) => explainRequest(rawBody, options, request),
    }),
  ];
}

async function explainRequest(body: Buffer, options: AdminOptions, asker: Asker): Promise<object> {
  let request: WireRequest;
  try {
    request = requestFromJson(body);
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    parseJson(body); // refuses a body that is not JSON at all
    return { status: 400, error: error.message, descriptors: [] } satisfies Omit<ExplainAnswer, 'rules'>;
  }
  const explained = await explain(request, options, asker);
  if (asker.isGone) return explained;
  const explanation = options.hasQuotas ? await withQuotas(explained, request.domain, options) : explained;
  if (!options.hasWorkers || asker.isGone) return explanation;
  const replies = await options.ask({ kind: 'explain', request });
  const workers = replies.map(({ process, reply: { explanation: own } }) => ({
    process,
    status: own.status,
    ...(own.answer && { answer: own.answer }),
    ...(own.error !== undefined && { error: own.error }),
    sources: [...new Set(own.descriptors.flatMap(({ limits }) => limits.flatMap((limit) => limit.source ?? [])))],
  }));
  return { ...explanation, workers };
}

/** Adds the quotas that proxies have for each descriptor. */
async function withQuotas(explanation: ExplainAnswer, domain: string, options: AdminOptions): Promise<ExplainAnswer> {
  const descriptors = await Promise.all(
    explanation.descriptors.map(async (one) => {
      const { quotas } = await quotasOf(options, { domain, entries: one.entries, count: EXPLAINED_QUOTAS });
      return quotas.length > 0 ? { ...one, quotas } : one;
    }),
  );
  return { ...explanation, descriptors };
}

/** The most proxies shown for one descriptor. */
const EXPLAINED_QUOTAS = 20;
