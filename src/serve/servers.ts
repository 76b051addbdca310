import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import { apiRoutes } from '../http/api.ts';
import type { Route } from '../http/server.ts';
import type { Logger } from '../observe/log.ts';
import type { Overload } from '../overload/overload.ts';
import { createHealth, type Readiness } from '../rls/health.ts';
import type { HoldsService } from '../rls/holds.ts';
import type { RlsService } from '../rls/service.ts';
import type { RuleTree } from '../rules/tree.ts';
import type { Settings } from '../settings.ts';
import { openCertificates } from '../transport/certificates.ts';
import type { GrpcServer, OnCall } from '../transport/grpc-server.ts';
import type { TlsOptions } from '../transport/listener.ts';
import { transports } from '../transport/transports.ts';
import { start } from './cannot-start.ts';
import { at, openHttp } from './http.ts';
import { createParts, type Part } from './parts.ts';

/** The listening servers. */
export interface Servers extends Part {
  /** Their addresses. */
  readonly grpc: string;
  readonly http: string;
}

export interface ServerSources {
  readonly service: RlsService;
  readonly overload: Overload;
  /** Wraps the pages for callers; undefined: not wrapped. */
  readonly routes: ((pages: ReadonlyMap<string, Route>) => ReadonlyMap<string, Route>) | undefined;
  readonly readiness: () => Readiness;
  readonly rules: () => RuleTree | undefined;
  readonly holds: HoldsService;
  readonly clock: Clock;
  readonly onCall: OnCall;
  readonly onConnectionError: (code: string) => void;
}

const SHUTTING_DOWN: Readiness = { ready: false, reasons: ['the service is shutting down'] };

/**
 * Opens the gRPC server and the HTTP server. Closing first reports NOT_SERVING while calls are still answered, so that load balancers can
 * react; then both servers finish the calls in flight, in parallel.
 *
 * @throws CannotStart if an address cannot be bound, or certificates cannot be used
 */
export async function openServers(settings: Settings, sources: ServerSources, log: Logger): Promise<Servers> {
  const parts = createParts();
  let isOpen = false;
  let isShuttingDown = false;
  const readiness = (): Readiness => (isShuttingDown ? SHUTTING_DOWN : sources.readiness());
  try {
    const servers: { close(graceMs: number): Promise<void> }[] = [];
    parts.add({
      async close() {
        isShuttingDown = true;
        if (isOpen) await sleep(settings.DRAIN_DELAY);
        await Promise.all(servers.map((server) => server.close(settings.DRAIN_TIMEOUT)));
      },
    });
    const httpAt = { host: settings.HOST, port: settings.PORT };
    const pages = apiRoutes(sources.service, readiness, sources.overload);
    const bounds = { memory: sources.overload.memory, maxConnections: settings.HTTP_MAX_CONNECTIONS };
    const http = await openHttp('PORT', httpAt, sources.routes?.(pages) ?? pages, log, bounds);
    servers.push(http);
    const grpc = await openGrpc(settings, { ...sources, readiness }, parts.add, log);
    servers.push(grpc);
    isOpen = true;
    return { grpc: grpc.target, http: at({ ...httpAt, port: http.port }), close: parts.close };
  } catch (error) {
    await parts.close();
    throw error;
  }
}

async function openGrpc(
  settings: Settings,
  { service, overload, readiness, rules, holds, clock, onCall, onConnectionError }: ServerSources,
  add: <P extends Part>(part: P) => P,
  log: Logger,
): Promise<GrpcServer> {
  const { GRPC_HOST: host, GRPC_PORT: port, GRPC_UDS: path } = settings;
  const address = path === '' ? { host, port } : { path };
  const tls = settings.GRPC_SERVER_USE_TLS ? await openTls(settings, clock, add, log) : undefined;
  const health = add(createHealth(readiness));
  const connections = {
    maxCount: settings.GRPC_MAX_CONNECTIONS,
    maxAgeMs: settings.GRPC_MAX_CONNECTION_AGE,
    maxAgeGraceMs: settings.GRPC_MAX_CONNECTION_AGE_GRACE,
    keepaliveTimeMs: settings.GRPC_KEEPALIVE_TIME,
    keepaliveTimeoutMs: settings.GRPC_KEEPALIVE_TIMEOUT,
  };
  return start(
    path === '' ? 'GRPC_PORT' : 'GRPC_UDS',
    `cannot listen on ${path === '' ? at({ host, port }) : path}`,
    () =>
      transports[settings.GRPC_TRANSPORT]({
        ...{ address, service, overload, health, rules, holds, clock, tls, connections, onCall, onConnectionError },
      }),
  );
}

async function openTls(
  settings: Settings,
  clock: Clock,
  add: <P extends Part>(part: P) => P,
  log: Logger,
): Promise<TlsOptions> {
  const { GRPC_SERVER_TLS_CERT: cert, GRPC_SERVER_TLS_KEY: key } = settings;
  const { GRPC_CLIENT_TLS_CACERT: clientCa, GRPC_CLIENT_TLS_SAN: clientName } = settings;
  const files = { cert, key, clientCa: clientCa === '' ? undefined : clientCa };
  const certificates = await start('GRPC_SERVER_USE_TLS', 'cannot use TLS', () =>
    openCertificates(files, clock, (problem) => log.error(problem)),
  );
  return { certificates: add(certificates), clientName: clientName === '' ? undefined : clientName };
}
