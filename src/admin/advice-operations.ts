import { type ApiOperation, operation } from './api.ts';
import { domain, text } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { object } from './schema.ts';

/** Advises by what the service has seen. */
export interface AdviceSource {
  advice(query: { readonly domain?: string; readonly rule?: string; readonly maxKeysHit?: number }): Promise<object>;
}

const MILLION = 1_000_000;

/** @param source  undefined: nothing is followed */
export function adviceOperations(source: AdviceSource | undefined): readonly ApiOperation[] {
  return [
    operation({
      path: '/api/v1/advice',
      method: 'GET',
      summary: 'how keys use each limit, what other limits would do, and a proposal (ADVISE_BYTES)',
      need: 'read',
      query: object(
        {
          domain: { ...domain, description: 'the limits of this domain alone' },
          rule: { ...text, description: 'the limits of one rule, by its path' },
          keysHitPerMillion: {
            type: 'integer',
            minimum: 1,
            maximum: MILLION - 1,
            description: 'of a million usual keys, those that a proposal may hit: 10,000 where it is absent',
          },
        },
        [],
      ),
      answers:
        '`limits`: for each limit that was met its figures, `warnings`, and a `proposal` or the reason for the `refusal`; `skipped`: limits without advice.',
      async answer({ query: { keysHitPerMillion, ...query } }) {
        if (!source) throw new ApiProblem(404, 'nothing is followed: set ADVISE_BYTES');
        return source.advice({
          ...query,
          ...(keysHitPerMillion !== undefined && { maxKeysHit: keysHitPerMillion / MILLION }),
        });
      },
    }),
  ];
}
