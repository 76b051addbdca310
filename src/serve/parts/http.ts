import { type HttpBounds, type HttpServer, type Route, startHttpServer } from '../../edge/http/server.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { start } from './start-up.ts';

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
