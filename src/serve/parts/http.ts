import { type HttpBounds, type HttpServer, type Route, startHttpServer } from '../../edge/http/server.ts';
import { formatTarget } from '../../h2/listen/listener.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { start } from './start-up.ts';

type HostAndPort = { readonly host: string; readonly port: number };

export const at = ({ host, port }: HostAndPort): string => formatTarget(host, port);

interface HttpOptions {
  /** Setting of the address, for the error message. */
  readonly variable: string;
  readonly address: HostAndPort;
  readonly routes: ReadonlyMap<string, Route>;
  /** Default: bounds of a server that only operators reach. */
  readonly bounds?: Partial<HttpBounds>;
  readonly log: Logger;
}

/** @throws CannotStart if the address cannot be bound */
export function openHttp({ variable, address, routes, bounds = {}, log }: HttpOptions): Promise<HttpServer> {
  const failed = (error: unknown) => log.error({ err: error }, 'an HTTP page failed');
  return start(variable, `cannot listen on ${at(address)}`, () => startHttpServer(address, routes, failed, bounds));
}
