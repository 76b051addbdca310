import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { type Client, credentials, loadPackageDefinition, type ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import type { Request, Step } from './case.ts';

const CALL_LIMIT_MS = 10_000;

/** Addresses of the server; what is absent is not tested. */
export interface Addresses {
  /** `host:port` of gRPC. */
  readonly target: string;
  /** `host:port` of HTTP, for /json. */
  readonly http?: string | undefined;
  /** The UDP port to which the server sends StatsD. */
  readonly statsd?: number | undefined;
  /** A call fails after this; default: 10 s. */
  readonly callLimitMs?: number | undefined;
  /** It has a connection of its own, which it shares with no other target. */
  readonly ownConnection?: boolean;
}

const PROTO = fileURLToPath(new URL('../proto', import.meta.url));
const services = {
  rls: ['rls.proto', 'envoy.service.ratelimit.v3.RateLimitService'],
  kuadrant: ['kuadrant.proto', 'kuadrant.service.ratelimit.v1.RateLimitService'],
  health: ['health.proto', 'grpc.health.v1.Health'],
} as const;
type ServiceName = keyof typeof services;

/** A response message, or the status of an error. */
export type Reply = Readonly<Record<string, unknown>>;

type Method = (request: object, options: object, done: (error: ServiceError | null, reply: Reply) => void) => void;

/** Calls the server under test. */
export class Target {
  readonly addresses: Addresses;
  readonly #clients: Readonly<Record<ServiceName, Client>>;
  readonly #statsd = createSocket('udp4');
  readonly #counters = new Map<string, number>();

  constructor(addresses: Addresses) {
    this.addresses = addresses;
    this.#clients = { rls: this.#open('rls'), kuadrant: this.#open('kuadrant'), health: this.#open('health') };
    this.#statsd.on('message', (packet) => this.#count(packet.toString()));
  }

  async listen(): Promise<void> {
    if (this.addresses.statsd === undefined) return;
    this.#statsd.bind(this.addresses.statsd);
    await once(this.#statsd, 'listening');
  }

  /** The counters that StatsD reported, by name. */
  get counters(): ReadonlyMap<string, number> {
    return this.#counters;
  }

  /** A decision in short form: unset fields are left out, and durations are seconds. */
  async decide(request: Request, service: 'rls' | 'kuadrant' = 'rls', method = 'ShouldRateLimit'): Promise<Reply> {
    const reply = await this.call(service, method, toWire(request));
    return 'grpc_status' in reply ? reply : shorten(reply);
  }

  call(service: ServiceName, method: string, message: object): Promise<Reply> {
    const client = this.#clients[service] as unknown as Readonly<Record<string, Method>>; // made from the definition
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + (this.addresses.callLimitMs ?? CALL_LIMIT_MS);
      const send = client[method]?.bind(client);
      if (!send) return reject(new Error(`${service} has no method ${method}`));
      send(message, { deadline }, (error, reply) => {
        resolve(error ? { grpc_status: error.code, grpc_message: error.details } : reply);
      });
    });
  }

  async json({ body, method = 'POST' }: Step): Promise<Reply> {
    const [host, port] = splitAddress(this.addresses.http ?? '');
    const sent = typeof body === 'string' ? body : JSON.stringify(body);
    const headers = { 'content-length': Buffer.byteLength(sent) };
    const call = httpRequest({ host, port, path: '/json', method, headers, timeout: CALL_LIMIT_MS });
    call.end(sent);
    const [response] = (await once(call, 'response')) as [IncomingMessage];
    const type = response.headers['content-type'] ?? '';
    const answered = await text(response);
    const parsed = type.startsWith('application/json') ? JSON.parse(answered) : answered;
    return { status: response.statusCode, content_type: type, body: parsed };
  }

  close(): void {
    for (const client of Object.values(this.#clients)) client.close();
    this.#statsd.close();
  }

  #open(service: ServiceName): Client {
    const [file, path] = services[service];
    const definition = loadSync(file, { includeDirs: [PROTO], keepCase: true, longs: Number, enums: String });
    let found: unknown = loadPackageDefinition(definition);
    for (const name of path.split('.')) found = (found as Record<string, unknown>)[name];
    const Service = found as new (address: string, with_: object, options: object) => Client; // the constructor of a service
    const options = this.addresses.ownConnection ? { 'grpc.use_local_subchannel_pool': 1 } : {};
    return new Service(this.addresses.target, credentials.createInsecure(), options);
  }

  #count(packet: string): void {
    for (const line of packet.split('\n')) {
      const [, name, value] = /^([^|]*):(-?\d+(?:\.\d+)?)\|c/.exec(line) ?? [];
      if (name !== undefined) this.#counters.set(name, (this.#counters.get(name) ?? 0) + Number(value));
    }
  }
}

function splitAddress(address: string): readonly [host: string, port: number] {
  const at = address.lastIndexOf(':');
  return [address.slice(0, at), Number(address.slice(at + 1))];
}

const unitNumbers = ['UNKNOWN', 'SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR', 'WEEK'];

const toWire = ({ domain = '', descriptors = [], hits_addend = 0 }: Request): object => ({
  domain,
  hits_addend,
  descriptors: descriptors.map(({ entries = [], limit, hits_addend: hits, is_negative_hits = false }) => ({
    entries: entries.map(([key, value = '']) => ({ key, value })),
    ...(limit && {
      limit: {
        requests_per_unit: limit.requests_per_unit ?? 0,
        unit: typeof limit.unit === 'string' ? unitNumbers.indexOf(limit.unit) : (limit.unit ?? 0),
      },
    }),
    ...(hits !== undefined && { hits_addend: { value: hits } }),
    is_negative_hits,
  })),
});

interface WireStatus {
  readonly code: string;
  readonly current_limit?: { readonly requests_per_unit: number; readonly unit: string; readonly name: string } | null;
  readonly limit_remaining: number;
  readonly duration_until_reset?: { readonly seconds: number; readonly nanos: number } | null;
}

function shorten(reply: Reply): Reply {
  const statuses = (reply.statuses ?? []) as readonly WireStatus[];
  return {
    overall_code: reply.overall_code ?? 'UNKNOWN',
    statuses: statuses.map(({ code = 'UNKNOWN', current_limit: limit, limit_remaining = 0, duration_until_reset }) => ({
      code,
      ...(limit && {
        current_limit: {
          requests_per_unit: limit.requests_per_unit ?? 0,
          unit: limit.unit ?? 'UNKNOWN',
          ...(limit.name && { name: limit.name }),
        },
      }),
      limit_remaining,
      ...(duration_until_reset && {
        duration_until_reset: Number(duration_until_reset.seconds ?? 0) + (duration_until_reset.nanos ? 1 : 0),
      }),
    })),
  };
}
