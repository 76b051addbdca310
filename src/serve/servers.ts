import { setTimeout as sleep } from 'node:timers/promises';
import { apiRoutes } from '../http/api.ts';
import type { HttpBounds } from '../http/bounded-server.ts';
import { type HttpServer, type Route, startHttpServer } from '../http/server.ts';
import type { Logger } from '../observe/log.ts';
import type { Overload } from '../overload/overload.ts';
import type { QuotaService } from '../rlqs/quota-service.ts';
import type { Health } from '../rls/health.ts';
import type { HoldsService } from '../rls/holds.ts';
import type { KuadrantService } from '../rls/kuadrant.ts';
import type { RlsService } from '../rls/service.ts';
import type { Settings } from '../settings.ts';
import { type Add, openParts, type Part, start } from '../start-up.ts';
import { type CertificateFiles, type Certificates, openCertificates } from '../transport/certificates.ts';
import type { GrpcServer, OnCallFinished } from '../transport/grpc-server.ts';
import { transports } from '../transport/transports.ts';
import type { ProcessContext } from './context.ts';
import type { Core } from './core.ts';

/** The addresses of the servers. */
export interface Servers extends Part {
  readonly grpc: string;
  readonly http: string;
}

/** What handles calls. */
export interface Handlers {
  readonly service: RlsService;
  readonly overload: Overload;
  /** Closed with the servers. */
  readonly health: Health;
  /** Wraps the pages for callers; undefined: not wrapped. */
  readonly routes: ((pages: ReadonlyMap<string, Route>) => ReadonlyMap<string, Route>) | undefined;
  readonly holds: HoldsService;
  readonly kuadrant: KuadrantService;
  readonly quotas: QuotaService | undefined;
  readonly onCallFinished: OnCallFinished;
  readonly onConnectionError: (code: string) => void;
}

/**
 * Opens the gRPC server and the HTTP server. Closing waits first: the service is not ready any more, but calls are
 * still answered, so that load balancers can react. Then both servers finish the calls in flight, in parallel.
 *
 * @throws CannotStart if an address cannot be bound, or certificates cannot be used
 */
export function openServers(
  settings: Settings,
  core: Core,
  handlers: Handlers,
  context: ProcessContext,
): Promise<Servers> {
  const { service, overload, routes } = handlers;
  const { address, maxConnections } = settings.http;
  return openParts(async (add) => {
    const servers: { close(graceMs: number): Promise<void> }[] = [];
    let delayMs = 0; // unless both are open
    add({
      async close() {
        await sleep(delayMs);
        handlers.quotas?.close();
        await Promise.all(servers.map((server) => server.close(settings.drain.timeoutMs)));
      },
    });
    const pages = apiRoutes(service, () => core.readiness.state(), overload);
    const bounds = { memory: overload.memory, maxConnections };
    const http = await openHttp('PORT', address, { routes: routes?.(pages) ?? pages, bounds }, context.log);
    servers.push(http);
    const grpc = await openGrpc(settings.grpc, { ...handlers, core, add }, context);
    servers.push(grpc);
    delayMs = settings.drain.delayMs;
    return { grpc: grpc.target, http: at({ ...address, port: http.port }) };
  });
}

async function openGrpc(
  { address, transport, tls, connections }: Settings['grpc'],
  { core, add, ...handlers }: Handlers & { readonly core: Core; readonly add: Add },
  context: ProcessContext,
): Promise<GrpcServer> {
  const certificates = tls && add(await openTls('GRPC_SERVER_USE_TLS', tls.files, context));
  add(handlers.health);
  const [variable, place] = 'path' in address ? ['GRPC_UDS', address.path] : ['GRPC_PORT', at(address)];
  return start(variable, `cannot listen on ${place}`, () =>
    transports[transport]({
      ...{ ...handlers, address, connections, rules: core.rules.book.rules, clock: context.clock },
      tls: certificates && { certificates, clientName: tls.clientName },
    }),
  );
}

/**
 * @param variable  a setting, for the error message
 * @throws CannotStart if the files cannot be used
 */
export const openTls = (
  variable: string,
  files: CertificateFiles,
  { clock, log }: ProcessContext,
): Promise<Certificates> =>
  start(variable, 'cannot use TLS', () => openCertificates(files, clock, (problem) => log.error(problem)));

type HostAndPort = { readonly host: string; readonly port: number };

export const at = ({ host, port }: HostAndPort): string => `${host}:${port}`;

/**
 * @param variable  the setting of the address, for the error message
 * @throws CannotStart if the address cannot be bound
 */
export function openHttp(
  variable: string,
  address: HostAndPort,
  // bounds default to those of a server that only operators reach
  { routes, bounds = {} }: { readonly routes: ReadonlyMap<string, Route>; readonly bounds?: Partial<HttpBounds> },
  log: Logger,
): Promise<HttpServer> {
  const failed = (error: unknown) => log.error({ err: error }, 'an HTTP page failed');
  return start(variable, `cannot listen on ${at(address)}`, () => startHttpServer(address, routes, failed, bounds));
}
