import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ghz } from '../../test/helpers/tools.ts';

const PROTO = fileURLToPath(new URL('../../proto', import.meta.url));
const REPORT_LIMIT_BYTES = 256 * 1024 * 1024; // the JSON format has a record for every call

/** The calls to send to a running service; each has one descriptor with one entry. */
export interface Load {
  /** host:port */
  readonly target: string;
  readonly calls: number;
  /** Calls in flight, spread over the connections. */
  readonly concurrency: number;
  readonly connections: number;
  readonly domain: string;
  readonly key: string;
  /**
   * A text, or a template of ghz: `user-{{randomInt 0 1000}}` is one of a thousand users, a random one in each call.
   */
  readonly value: string;
}

/** Runs ghz to its end and returns its report, which includes failed calls. @throws  ghz could not run */
export async function runGhz(load: Load, format: 'summary' | 'json'): Promise<string> {
  const { target, calls, concurrency, connections, domain, key, value } = load;
  const request = { domain, descriptors: [{ entries: [{ key, value }] }] };
  const args = [
    ...['--insecure', '--import-paths', PROTO, '--proto', `${PROTO}/envoy/service/ratelimit/v3/rls.proto`],
    ...['--call', 'envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', '--data', JSON.stringify(request)],
    ...['--total', calls, '--concurrency', concurrency, '--connections', connections, '--format', format, target],
  ];
  const { stdout } = await promisify(execFile)(await ghz(), args.map(String), { maxBuffer: REPORT_LIMIT_BYTES });
  return stdout;
}
