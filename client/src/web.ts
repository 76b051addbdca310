import { keyByAddress } from './middleware/address.ts';
import { createGuard, type Passed, type Refused } from './middleware/guard.ts';
import type { LimitOptions } from './middleware/options.ts';

export { type AddressOf, createAddressOf, type Origin } from './middleware/address.ts';
export { createGuard, type Guard, type Passage, type Passed, PROBLEM_TYPE, type Refused } from './middleware/guard.ts';
export { type Field, fieldsOf, violatedPolicies } from './middleware/headers.ts';

/** Options of the limiter for standard requests. */
export interface WebLimitOptions extends LimitOptions<Request> {
  /** The connected address, which a standard request does not have. Required without `trustProxy` or `key`. */
  readonly peer?: (request: Request) => string | undefined;
  /** Creates the response to a refused request; the headers are added to it. Default: a problem document. */
  readonly onRefused?: (refusal: Refused, request: Request) => Response | Promise<Response>;
}

/** The outcome of a request. */
export interface WebOutcome {
  /** The response to a refused request, or undefined if it passed. */
  readonly response: Response | undefined;
  /** Headers for the response to a request that passed. */
  readonly headers: Headers;
  /** Charges or refunds the difference between `cost` and the final cost of a request that passed. Never rejects. */
  readonly settle: Passed['settle'];
}

/**
 * Limits standard requests, in any framework that has them:
 * `const { response, headers } = await limit(request); if (response) return response;`
 *
 * @throws TypeError  an option is missing or invalid
 */
export function rateLimit(options: WebLimitOptions): (request: Request) => Promise<WebOutcome> {
  const { peer, onRefused, key, trustProxy } = options;
  if (!peer && !key && trustProxy === undefined)
    throw new TypeError('expected one of the options peer, trustProxy and key: a standard request has no address');
  const guard = createGuard({ key: keyByAddress, ...options });
  return async (request) => {
    const forwardedFor = request.headers.get('x-forwarded-for') ?? undefined;
    const passage = await guard(request, { peer: peer?.(request), forwardedFor });
    const headers = new Headers();
    for (const [name, value] of passage.fields) headers.append(name, value);
    if (passage.ok) return { response: undefined, headers, settle: passage.settle };
    const response = onRefused ? await onRefused(passage, request) : toResponse(passage);
    for (const [name, value] of headers) response.headers.set(name, value);
    return { response, headers, settle: async () => {} };
  };
}

const toResponse = ({ status, body, contentType }: Refused): Response =>
  new Response(body, { status, headers: { 'content-type': contentType } });
