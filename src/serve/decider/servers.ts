import { setTimeout as sleep } from 'node:timers/promises';
import type { GrpcServerOptions } from '../../edge/grpc/grpc-server.ts';
import { apiRoutes, type OfferedService } from '../../edge/http/api.ts';
import type { Route } from '../../edge/http/server.ts';
import type { Overload } from '../../edge/overload/overload.ts';
import type { RlsService } from '../../edge/rls/service.ts';
import type { GrpcServer } from '../../h2/server.ts';
import { routes as wantedRoutes } from '../../parts/parts.ts';
import type { Settings } from '../../settings/settings.ts';
import { at, openHttp } from '../parts/http.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { type Add, openParts, type Part, start } from '../parts/start-up.ts';
import { openTls } from '../parts/tls.ts';
import type { DeciderCore } from './core.ts';
import { startGrpcServer } from './transport.ts';

/** The addresses of the servers. */
export interface Servers extends Part {
  readonly grpc: string;
  readonly http: string;
}

/** The services that the gRPC server offers; its other options come from the settings. */
type GrpcHandlers = Omit<GrpcServerOptions, 'address' | 'connections' | 'tls' | 'clock'>;

/** The handlers of calls. */
interface Handlers extends GrpcHandlers {
  readonly others: readonly OfferedService[];
  readonly core: DeciderCore;
  readonly wrapPages: (pages: ReadonlyMap<string, Route>) => ReadonlyMap<string, Route>;
}

/**
 * Opens the gRPC server and the HTTP server. `close` first waits while calls are still answered but the service is not
 * ready, so that load balancers can react. Then both servers finish the calls in flight, in parallel.
 *
 * @throws CannotStart if an address cannot be bound, or certificates cannot be used
 */
export function openCallerServers(
  settings: Pick<Settings, 'http' | 'grpc' | 'drain'>,
  { core, wrapPages, ...handlers }: Handlers,
  context: ProcessContext,
): Promise<Servers> {
  const { readiness } = core;
  const { service, overload, health, others } = handlers;
  const { address, maxConnections } = settings.http;
  return openParts(async (add) => {
    const servers: { close(graceMs: number): Promise<void> }[] = [];
    let delayMs = 0; // unless both are open
    add({
      async close() {
        await sleep(delayMs);
        for (const other of others) other.close?.();
        await Promise.all(servers.map((server) => server.close(settings.drain.timeoutMs)));
      },
    });
    const pages = new Map(apiRoutes(service, () => readiness.state(), overload));
    for (const other of others)
      for (const [path, route] of (await other.pages?.(overload)) ?? []) pages.set(path, route);
    for (const [path, route] of await openRoutes(settings.http, service, overload)) pages.set(path, route);
    const bounds = { memory: overload.memory, maxConnections, isChecked: undefined };
    const http = await openHttp({
      variable: 'PORT',
      address,
      routes: wrapPages(pages),
      bounds,
      log: context.log,
    });
    servers.push(http);
    add(health);
    const grpc = await openGrpc(settings.grpc, handlers, { add, context });
    servers.push(grpc);
    delayMs = settings.drain.delayMs;
    return { grpc: grpc.target, http: at({ ...address, port: http.port }) };
  });
}

/** Loads only the pages that the settings ask for. */
async function openRoutes(http: Settings['http'], service: RlsService, overload: Overload) {
  const opened = Object.entries(wantedRoutes).flatMap(([setting, load]) => {
    const value = http[setting as keyof typeof wantedRoutes]; // its key
    return typeof value === 'string' ? [load().then((open) => open(value, service, overload))] : [];
  });
  return Promise.all(opened);
}

/**
 * @param parts  `add` registers the certificates to be closed with the other parts
 * @throws CannotStart if the address cannot be bound, or certificates cannot be used
 */
async function openGrpc(
  { address, transport, tls, connections }: Settings['grpc'],
  handlers: GrpcHandlers,
  { add, context }: { readonly add: Add; readonly context: ProcessContext },
): Promise<GrpcServer> {
  const certificates = tls && add(await openTls('GRPC_SERVER_USE_TLS', tls.files, context));
  const [variable, place] = 'path' in address ? ['GRPC_UDS', address.path] : ['GRPC_PORT', at(address)];
  return start(variable, `cannot listen on ${place}`, () =>
    startGrpcServer(transport, {
      ...handlers,
      address,
      connections,
      clock: context.clock,
      tls: certificates && { certificates, clientName: tls.clientName },
    }),
  );
}
