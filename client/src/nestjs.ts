import type { IncomingMessage, ServerResponse } from 'node:http';
import { type CanActivate, type ExecutionContext, HttpException } from '@nestjs/common';
import { createGuard, type Guard, PROBLEM_TYPE } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd } from './middleware/settle.ts';

/** A request of NestJS, on Express or on Fastify. */
export type NestRequest = Pick<IncomingMessage, 'headers' | 'socket' | 'method' | 'url'> & {
  readonly ip?: string;
  readonly [name: string]: unknown;
};

/** Options of the guard for NestJS. */
export interface NestLimitOptions extends LimitOptions<NestRequest>, CostAfter<NestRequest, ServerResponse> {}

/** The common parts of both platforms' responses; Fastify's has Node's response as `raw`. */
interface NestResponse {
  header(name: string, value: string): unknown;
  readonly raw?: ServerResponse;
}

/**
 * Limits HTTP requests in NestJS: `app.useGlobalGuards(new RateLimitGuard({ client, domain: 'demo' }))`, or an instance
 * in `@UseGuards`.
 */
export class RateLimitGuard implements CanActivate {
  readonly #guard: Guard<NestRequest>;
  readonly #costAfter: NestLimitOptions['costAfter'];

  constructor(options: NestLimitOptions) {
    this.#guard = createGuard(options);
    this.#costAfter = options.costAfter;
  }

  /** @throws HttpException  the request is refused */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true;
    const request = context.switchToHttp().getRequest<NestRequest>();
    const response = context.switchToHttp().getResponse<NestResponse>();
    const forwardedFor = request.headers['x-forwarded-for']?.toString();
    const { remoteAddress } = request.socket;
    const passage = await this.#guard(request, { peer: remoteAddress, forwardedFor, resolved: request.ip });
    for (const [name, value] of passage.fields) response.header(name, value);
    if (!passage.ok) {
      response.header('content-type', PROBLEM_TYPE);
      throw new HttpException(passage.problem, passage.status);
    }
    const costAfter = this.#costAfter;
    // Express passes Node's response itself.
    const raw = response.raw ?? (response as unknown as ServerResponse);
    if (costAfter) settleAtEnd(raw, passage, () => costAfter(request, raw));
    return true;
  }
}
