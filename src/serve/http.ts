import type { HttpBounds } from '../http/bounded-server.ts';
import { type HttpServer, type Route, startHttpServer } from '../http/server.ts';
import type { Logger } from '../observe/log.ts';
import { start } from './cannot-start.ts';

export type HostAndPort = { readonly host: string; readonly port: number };

export const at = ({ host, port }: HostAndPort): string => `${host}:${port}`;

/**
 * @param variable  the setting of the address, for the error message
 * @param bounds    defaults to those of a server that only operators reach
 * @throws CannotStart if the address cannot be bound
 */
export function openHttp(
  variable: string,
  address: HostAndPort,
  routes: ReadonlyMap<string, Route>,
  log: Logger,
  bounds: Partial<HttpBounds> = {},
): Promise<HttpServer> {
  const failed = (error: unknown) => log.error({ err: error }, 'an HTTP page failed');
  return start(variable, `cannot listen on ${at(address)}`, () => startHttpServer(address, routes, failed, bounds));
}
