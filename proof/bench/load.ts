import { parseArgs } from 'node:util';
import { runGhz } from './ghz.ts';
import { runMain } from './main.ts';

const usage = `Usage: npm run load -- [options]

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
  help: { type: 'boolean', default: false },
} as const;

runMain(drive);

async function drive(): Promise<void> {
  const { values } = parseArgs({ options });
  if (values.help) {
    process.stdout.write(usage);
    return;
  }
  const calls = count('--total', values.total);
  const summary = await runGhz(
    {
      ...values,
      calls,
      target: loopback(values.target),
      concurrency: count('--concurrency', values.concurrency),
      connections: count('--connections', values.connections),
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

function count(option: string, written: string): number {
  if (/^[1-9]\d{0,8}$/.test(written)) return Number(written);
  throw new Error(`${option} must be a whole number from 1 to 999999999, got '${written}'`);
}
