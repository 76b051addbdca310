import { randomInt } from 'node:crypto';
import { every } from '../../base/clock.ts';
import { fields, whole } from '../../base/shape.ts';
import { operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import { domain, text } from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import type { OperatorPart } from '../../serve/control/part.ts';
import type { Settings } from '../../settings/settings.ts';
import type { LiveAdvice } from './live-advice.ts';

const MILLION = 1_000_000;

/** The operation that gives advice from the traffic of the service, which is followed from now on unless it is off. */
export function adviceOperations(options: AdminOptions, { advice: { maxBytes } }: Settings): OperatorPart {
  const advice = maxBytes > 0 ? followTraffic(options, maxBytes) : undefined;
  return { operations: [adviceOperation(advice)], close: async () => (await advice)?.close() };
}

async function followTraffic({ rules, hash, ask }: AdminOptions, maxBytes: number): Promise<LiveAdvice> {
  const { LiveAdvice } = await import('./live-advice.ts');
  return new LiveAdvice({ maxBytes, ask, every, rules, hash, seed: randomInt(2 ** 31) });
}

const adviceOperation = (advice: Promise<LiveAdvice> | undefined) =>
  operation('GET /api/v1/advice', {
    summary: 'the use of each limit by key, the effect of other limits, and a proposal (ADVISE_BYTES)',
    need: 'read',
    domains: 'named',
    query: fields(
      {},
      {
        domain: { ...domain, description: 'only limits of this domain' },
        rule: { ...text, description: 'only limits of this rule, by its path' },
        keysHitPerMillion: {
          ...whole,
          minimum: 1,
          maximum: MILLION - 1,
          description: 'how many of a million normal keys a proposal may hit; default: 10,000',
        },
      },
    ),
    answers:
      '`limits`: for each limit that requests have matched, its figures, `warnings`, and a `proposal` or the reason for the `refusal`; `skipped`: limits without advice.',
    async answer({ query: { keysHitPerMillion, ...only } }) {
      if (!advice) throw new ApiProblem(404, 'no requests are observed: set ADVISE_BYTES');
      return (await advice).advice(only, keysHitPerMillion && keysHitPerMillion / MILLION);
    },
  });
