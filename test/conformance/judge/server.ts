import { fileURLToPath } from 'node:url';
import { loadPackageDefinition, Server, ServerCredentials, type ServiceDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { Limit } from '../../../conformance/src/judge/limits.ts';
import type { Defect, Surroundings } from './defects.ts';
import { freshState, type State, steps } from './limiters.ts';

const PROTO = fileURLToPath(new URL('../../../conformance/proto', import.meta.url));
const SERVICE = ['envoy', 'service', 'ratelimit', 'v3', 'RateLimitService'];

const none: Surroundings = {
  ...{ raceMs: 0, skewMs: 0, sharded: false, repeated: 0 },
  ...{ lossEveryMs: 0, collidesIn: 0, remembersMs: 0 },
};

/** The state of a server, which several instances share. */
class Counters {
  readonly states = new Map<string, State>();
  readonly refusedUntil = new Map<string, number>();
  lostMs = 0;
}

interface Descriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[];
  readonly hits_addend: { readonly value: string } | null;
  readonly is_negative_hits: boolean;
}

/** A limit of two instances, correct or with a defect. */
export class LimitServer {
  readonly targets: readonly string[];
  readonly #servers: readonly Server[];

  private constructor(servers: readonly Server[], targets: readonly string[]) {
    this.#servers = servers;
    this.targets = targets;
  }

  static async start(limit: Limit, defect?: Defect): Promise<LimitServer> {
    const around = { ...none, ...defect?.server };
    const shared = new Counters();
    const instances = [0, 1].map((at) => new Instance(limit, defect, around.sharded ? new Counters() : shared, at));
    const started = await Promise.all(instances.map((instance) => serve((one) => instance.answer(one))));
    return new LimitServer(
      started.map(({ server }) => server),
      started.map(({ port }) => `127.0.0.1:${port}`),
    );
  }

  stop(): void {
    for (const server of this.#servers) server.forceShutdown();
  }
}

class Instance {
  readonly #limit: Limit;
  readonly #defect: Defect | undefined;
  readonly #around: Surroundings;
  readonly #counters: Counters;
  readonly #aheadMs: number;

  constructor(limit: Limit, defect: Defect | undefined, counters: Counters, at: number) {
    this.#limit = limit;
    this.#defect = defect;
    this.#around = { ...none, ...defect?.server };
    this.#counters = counters;
    this.#aheadMs = at * this.#around.skewMs;
  }

  async answer({ entries, hits_addend: given, is_negative_hits: isNegative }: Descriptor): Promise<object> {
    const hits = Number(given?.value ?? 1) * (isNegative ? -1 : 1);
    const [key = '', holder = ''] = entries.map(({ value }) => value);
    const [counter, nowMs] = [this.#around.collidesIn > 0 ? '' : key, Date.now() + this.#aheadMs];
    if ((this.#counters.refusedUntil.get(counter) ?? 0) > nowMs) return this.#status(false, 0);
    const answer = await this.#step(counter, { hits, holder, nowMs });
    if (!answer.passes) this.#counters.refusedUntil.set(counter, nowMs + this.#around.remembersMs);
    return this.#status(answer.passes, answer.remaining, answer.resetMs);
  }

  async #step(counter: string, call: { hits: number; holder: string; nowMs: number }) {
    const { states } = this.#counters;
    const { raceMs, lossEveryMs, repeated } = this.#around;
    if (lossEveryMs > 0 && call.nowMs > this.#counters.lostMs + lossEveryMs) {
      states.clear();
      this.#counters.lostMs = call.nowMs;
    }
    const correct = steps[this.#limit.algorithm];
    const step = this.#defect?.step?.(correct) ?? correct;
    const state = { ...(states.get(counter) ?? freshState(this.#limit, call.nowMs)) };
    const answer = step(state, call, this.#limit);
    if (Math.random() < repeated) step(state, call, this.#limit);
    if (raceMs > 0) await new Promise((resolve) => setTimeout(resolve, raceMs));
    states.set(counter, state);
    return answer;
  }

  #status(passes: boolean, remaining: number, resetMs?: number): object {
    const reset = resetMs === undefined ? {} : { duration_until_reset: { seconds: Math.ceil(resetMs / 1_000) } };
    const current = { requests_per_unit: this.#limit.limit, unit: 'SECOND' };
    const code = passes ? 'OK' : 'OVER_LIMIT';
    return { overall_code: code, statuses: [{ code, current_limit: current, limit_remaining: remaining, ...reset }] };
  }
}

async function serve(answer: (descriptor: Descriptor) => Promise<object>) {
  const definition = loadSync('rls.proto', { includeDirs: [PROTO], keepCase: true, longs: String, defaults: true });
  let found: unknown = loadPackageDefinition(definition);
  for (const name of SERVICE) found = (found as Record<string, unknown>)[name];
  const server = new Server();
  server.addService((found as { service: ServiceDefinition }).service, {
    shouldRateLimit: ({ request }: { request: { descriptors: Descriptor[] } }, done: (e: null, r: object) => void) => {
      const [descriptor] = request.descriptors;
      if (descriptor) void answer(descriptor).then((reply) => done(null, reply));
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  return { server, port };
}
