import { fields, whole } from '../../base/shape.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { domain, text } from './parameters.ts';
import { ApiProblem } from './problem.ts';

const MILLION = 1_000_000;

/** The operation that gives advice from the traffic of the service. */
export function adviceOperations(options: Pick<AdminOptions, 'advice'>): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/advice', {
      summary: 'the use of each limit by key, the effect of other limits, and a proposal (ADVISE_BYTES)',
      need: 'read',
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
      async answer({ query: { keysHitPerMillion, ...query } }) {
        if (!options.advice) throw new ApiProblem(404, 'no requests are observed: set ADVISE_BYTES');
        return options.advice.advice({
          ...query,
          ...(keysHitPerMillion !== undefined && { maxKeysHit: keysHitPerMillion / MILLION }),
        });
      },
    }),
  ];
}
