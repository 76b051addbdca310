import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { createGuard, type Refused } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd } from './middleware/settle.ts';

/** Options of the middleware for Express. */
export interface ExpressLimitOptions extends LimitOptions<Request>, CostAfter<Request, Response> {
  /** Answers a refused request instead of the problem document. The response has the status and the headers. */
  readonly onRefused?: (refusal: Refused, request: Request, response: Response) => unknown;
}

/**
 * Limits requests in Express 4 or 5: `app.get('/', rateLimit({ client, domain: 'demo' }), handler)`.
 *
 * @returns a middleware that refuses with 429 and a problem document
 */
export function rateLimit(options: ExpressLimitOptions): RequestHandler {
  const guard = createGuard(options);
  const { costAfter, onRefused } = options;
  const handle = async (request: Request, response: Response): Promise<boolean> => {
    const { remoteAddress } = request.socket;
    const forwardedFor = request.get('x-forwarded-for');
    const passage = await guard(request, { peer: remoteAddress, forwardedFor, resolved: request.ip });
    for (const [name, value] of passage.fields) response.setHeader(name, value);
    if (!passage.ok) {
      response.status(passage.status);
      if (onRefused) await onRefused(passage, request, response);
      else response.type(passage.contentType).send(passage.body);
      return false;
    }
    if (costAfter) settleAtEnd(response, passage, () => costAfter(request, response));
    return true;
  };
  return (request, response, next: NextFunction) => {
    handle(request, response).then((goesOn) => {
      if (goesOn) next();
    }, next);
  };
}
