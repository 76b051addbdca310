import { parseArgs } from 'node:util';
import { parseCount } from '../options.ts';
import { runGhz } from './ghz.ts';

export const usage = `Usage: npm run proof -- load [options]

Sends requests to a running service, on this machine only, and prints ghz's summary of them.
Exits with 1 if a call fails; a request over its limit is an answer, not a failure.

  --target HOST:PORT  where the service listens (localhost:8081)
  --total N           requests in all (20000)
  --concurrency N     requests in flight (50)
  --connections N     connections they are spread over (4)
  --domain TEXT       domain of every request (demo)
  --key TEXT          key of the only entry (user)
  --value TEXT        value of the entry; may be a ghz template (user-{{randomInt 0 1000}})
  --help              this text
`;

const options = {
  target: { type: 'string', default: 'localhost:8081' },
  total: { type: 'string', default: '20000' },
  concurrency: { type: 'string', default: '50' },
  connections: { type: 'string', default: '4' },
  domain: { type: 'string', default: 'demo' },
  key: { type: 'string', default: 'user' },
  value: { type: 'string', default: 'user-{{randomInt 0 1000}}' },
} as const;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const calls = parseCount('--total', values.total);
  const summary = await runGhz(
    {
      ...values,
      calls,
      target: loopback(values.target),
      concurrency: parseCount('--concurrency', values.concurrency),
      connections: parseCount('--connections', values.connections),
    },
    'summary',
  );
  process.stdout.write(summary);
  const answered = Number(/^ *\[OK\] +(\d+) responses/m.exec(summary)?.[1] ?? 0);
  if (answered < calls) throw new Error(`${calls - answered} of ${calls} calls failed`);
}

/** Refuses any target but a loopback address: do not put load on machines of others. */
function loopback(target: string): string {
  if (/^(localhost|127\.0\.0\.1|\[::1\]):\d+$/.test(target)) return target;
  throw new Error(`--target must be a port of localhost, 127.0.0.1 or [::1], got '${target}'`);
}
