import { setTimeout as sleep } from 'node:timers/promises';
import { Breaker } from './breaker.ts';
import type { ClientOptions } from './options.ts';
import { Server } from './server.ts';
import type { DecisionEngine } from './transport/engine.ts';
import { createGrpcTransport, loadGrpc } from './transport/grpc.ts';
import { createHttpTransport } from './transport/http.ts';
import type { Transport } from './transport/transport.ts';

const READY_POLL_MS = 50;

/** The servers of a client. */
export interface Servers {
  readonly all: readonly Server[];
  ready(timeoutMs: number): Promise<boolean>;
  close(): void;
}

/** Opens a transport to each target, unless an engine decides. @throws TypeError  a target cannot be called */
export function openServers(options: ClientOptions, now: () => number): Servers {
  const { engine, target: given = [], breaker = {} } = options;
  if (engine) return withoutServers(engine, now);
  const targets = [given].flat();
  if (targets.length === 0) throw new TypeError('expected at least one target, or an engine');
  for (const target of targets) checkTarget(target);
  const all: Server[] = [];
  let isClosed = false;
  const close = () => {
    isClosed = true;
    for (const { transport } of all) transport.close();
  };
  try {
    for (const target of targets)
      all.push(new Server(target, open(target, options), breaker === false ? undefined : new Breaker(breaker, now)));
  } catch (error) {
    close();
    throw error;
  }
  const ready = async (timeoutMs: number): Promise<boolean> => {
    const endMs = now() + timeoutMs;
    let isOver = false;
    const becomesReady = async ({ transport }: Server): Promise<void> => {
      while (!isClosed && !isOver) {
        if (await transport.isReady(Math.max(1, endMs - now()))) return;
        if (now() >= endMs) break;
        await sleep(READY_POLL_MS);
      }
      throw new Error('not ready');
    };
    const isReady = await Promise.any(all.map(becomesReady)).then(
      () => true,
      () => false,
    );
    isOver = true;
    return isReady;
  };
  return { all, ready, close };
}

/** @throws TypeError */
function open(target: string, { tls, grpc }: ClientOptions): Transport {
  const certificates = tls === true ? {} : tls;
  try {
    if (isHttp(target)) return createHttpTransport(target, certificates);
    return createGrpcTransport(loadGrpc(grpc), target, certificates);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TypeError(`${target} cannot be called: ${reason}`, { cause });
  }
}

/** No servers, since the engine decides. */
function withoutServers(engine: DecisionEngine, now: () => number): Servers {
  return {
    all: [],
    async ready(timeoutMs) {
      const endMs = now() + timeoutMs;
      while (!engine.health().ready && now() < endMs) await sleep(READY_POLL_MS);
      return engine.health().ready;
    },
    close: () => void engine.close(),
  };
}

const isHttp = (target: string): boolean => /^https?:\/\//.test(target);

/** Whether all addresses of a gRPC target have a port. Those of a socket, or from a control plane, need none. */
function namesPort(target: string): boolean {
  if (/^(unix|unix-abstract|xds):/.test(target)) return true;
  const addresses = target.replace(/^.*\//, '').replace(/^(dns|ipv4|ipv6):/, '');
  return addresses.split(',').every((address) => /^(\[[^\]]+\]|[^:[\]]+):\d{1,5}$/.test(address));
}

function checkTarget(target: string): void {
  const example = "expected a target such as 'localhost:8081' or 'http://localhost:8080'";
  if (typeof target !== 'string' || target === '') throw new TypeError(`${example}, got ${String(target)}`);
  if (isHttp(target) && !URL.canParse(target)) throw new TypeError(`${example}, got ${target}`);
  if (!isHttp(target) && !namesPort(target)) throw new TypeError(`${example}, got ${target}, which has no port`);
}
