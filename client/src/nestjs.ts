import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type CanActivate,
  type DynamicModule,
  type ExecutionContext,
  HttpException,
  type ModuleMetadata,
  SetMetadata,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { createGuard, type Guard, type Refused } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd } from './middleware/settle.ts';

/** A request of NestJS, on Express or on Fastify. */
export type NestRequest = Pick<IncomingMessage, 'headers' | 'socket' | 'method' | 'url'> & {
  readonly ip?: string;
  readonly [name: string]: unknown;
};

/** Options of the guard for NestJS. */
export interface NestLimitOptions extends LimitOptions<NestRequest>, CostAfter<NestRequest, ServerResponse> {
  /** Creates the exception for a refused request; its response has the headers already. Default: a problem document. */
  readonly onRefused?: (refusal: Refused, request: NestRequest) => Error;
}

/** Options of `WeirModule.forRootAsync`. */
export interface NestAsyncOptions extends Pick<ModuleMetadata, 'imports'> {
  /** The providers that are passed to `useFactory`. */
  readonly inject?: readonly NonNullable<unknown>[];
  // The arguments are those of `inject`, whose types Nest does not know either.
  // biome-ignore lint/suspicious/noExplicitAny: as in Nest's own modules
  readonly useFactory: (...dependencies: any[]) => NestLimitOptions | Promise<NestLimitOptions>;
}

/** The common parts of both platforms' responses; Fastify's has Node's response as `raw`. */
interface NestResponse {
  header(name: string, value: string): unknown;
  status(code: number): { send(body: string): unknown };
  readonly raw?: ServerResponse;
}

const OVERRIDE = 'weir:limit';

/** Options of one controller or handler: `@Limit({ cost: () => 5 })`. The others are those of the guard. */
export const Limit = (options: Partial<NestLimitOptions>) => SetMetadata(OVERRIDE, options);

/** Exempts a controller or a handler. */
export const SkipLimit = () => SetMetadata(OVERRIDE, 'skip');

type Override = Partial<NestLimitOptions> | 'skip' | undefined;

/** Limits the HTTP requests of all controllers: `imports: [WeirModule.forRoot({ client, domain: 'demo' })]`. */
// biome-ignore lint/complexity/noStaticOnlyClass: Nest requires a module to be a class
export class WeirModule {
  static forRoot(options: NestLimitOptions): DynamicModule {
    return WeirModule.forRootAsync({ useFactory: () => options });
  }

  /** Options from other providers: `forRootAsync({ inject: [Settings], useFactory: (settings) => … })`. */
  static forRootAsync({ imports = [], inject = [], useFactory }: NestAsyncOptions): DynamicModule {
    const createInjectedGuard = async (...dependencies: unknown[]) =>
      new RateLimitGuard(await useFactory(...dependencies));
    const guard = { provide: APP_GUARD, inject: [...inject] as never[], useFactory: createInjectedGuard }; // tokens of any type
    return { module: WeirModule, imports, providers: [guard] };
  }
}

/**
 * Limits HTTP requests in NestJS: `app.useGlobalGuards(new RateLimitGuard({ client, domain: 'demo' }))`, or an instance
 * in `@UseGuards`.
 */
export class RateLimitGuard implements CanActivate {
  readonly #options: NestLimitOptions;
  readonly #guard: Guard<NestRequest>;
  /** The guards of controllers and handlers with their own options. */
  readonly #overrides = new Map<Override, RateLimitGuard>();

  constructor(options: NestLimitOptions) {
    this.#options = options;
    this.#guard = createGuard(options);
  }

  /** @throws Error  the request is refused */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (context.getType() !== 'http') return true;
    const ofController = readOverride(context.getClass());
    const ofHandler = readOverride(context.getHandler());
    const override = ofHandler ?? ofController;
    if (override === 'skip') return true;
    if (!override) return this.#limit(context);
    let guard = this.#overrides.get(override);
    if (!guard) {
      guard = new RateLimitGuard({ ...this.#options, ...(ofController !== 'skip' && ofController), ...override });
      this.#overrides.set(override, guard);
    }
    return guard.#limit(context);
  }

  async #limit(context: ExecutionContext): Promise<true> {
    const request = context.switchToHttp().getRequest<NestRequest>();
    const response = context.switchToHttp().getResponse<NestResponse>();
    const forwardedFor = request.headers['x-forwarded-for']?.toString();
    const { remoteAddress } = request.socket;
    const passage = await this.#guard(request, { peer: remoteAddress, forwardedFor, resolved: request.ip });
    for (const [name, value] of passage.fields) response.header(name, value);
    const { costAfter, onRefused } = this.#options;
    if (!passage.ok) {
      if (onRefused) throw onRefused(passage, request);
      response.header('content-type', passage.contentType);
      if (passage.decision.body !== undefined) response.status(passage.status).send(passage.body);
      throw new HttpException(passage.problem, passage.status); // Nest sends it unless a response has been sent
    }
    // Express passes Node's response itself.
    const raw = response.raw ?? (response as unknown as ServerResponse);
    if (costAfter) settleAtEnd(raw, passage, () => costAfter(request, raw));
    return true;
  }
}

/** What the decorators have set. Nest loads the methods of `reflect-metadata`. */
const readOverride = (target: object): Override =>
  (Reflect as unknown as { getMetadata(key: string, target: object): Override }).getMetadata(OVERRIDE, target);
