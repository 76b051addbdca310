import { parseArgs } from 'node:util';
import { startGenerator } from './generator/generator.ts';
import { overloadWithLargeCalls, overloadWithSmallCalls } from './overload/calls.ts';
import { flood } from './overload/flood.ts';
import { exhaustOneUser } from './overload/one-user.ts';
import type { Environment } from './overload/proxied.ts';

export const usage = `Usage: npm run proof -- overload [options]

Overloads the service in several ways, and prints the outcomes. Exits with 1 if a bound is exceeded.

  small      one descriptor, counters in a Redis that is started for it: ten times, then a hundred times as many calls in flight as keep it busy, each
             answer starting the next call at once, then as many as before. Bound: every call is decided later than a second after that.
  large      100 descriptors, counters in memory: ten times as many calls a second as it can answer, regardless of the outcomes of earlier calls.
             Bounds: at least 80 % of its capacity is answered within 20 ms of the time when the call was due, and memory does not grow any more
             in the second half.
  busy       20,000 requests of one user with a limit of 3, over 20 and over 200 connections through an Envoy that waits for 1 s and then lets them
             pass, counters in Redis, beside six busy processes. Bound: at most 2 more pass than with envoyproxy/ratelimit (npm run proof -- peers), or than the
             limit where that is not built.
  throttled  the same while the service is stopped for 60 ms of every 100 ms, as a CPU quota does, instead of the busy processes.
  flood      one abuser at ten times the capacity of Envoy and the service together, and 50 honest clients at their normal rate, through an Envoy that
             lets undecided requests pass, and one that does not: with its default timeout of 20 ms and counters in memory and in Redis, with a Redis
             50 ms away (timeout 250 ms), and with a Redis that is stopped for 5 s. Bounds: at most twice the abuser's limit passes, and at least
             99 % of the honest requests are admitted in time; with a stopped Redis only for rules with on_store_failure: local.

  --only TEXT        one of these; absent: small and large, then the others
  --seconds N        how long each overload of small and large lasts (60)
  --env NAME=VALUE   a setting of the service, such as GRPC_TRANSPORT=grpc-js; may be repeated. Others have their defaults
  --help             this text
`;

const options = {
  only: { type: 'string' },
  seconds: { type: 'string', default: '60' },
  env: { type: 'string', multiple: true },
} as const;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({ args, options });
  const env = createEnvironment(values.env ?? []);
  const generator = startGenerator();
  const shared = { generator, env };
  const ms = Number(values.seconds) * 1_000;
  const modes: Readonly<Record<string, () => Promise<void>>> = {
    small: () => overloadWithSmallCalls(shared, ms),
    large: () => overloadWithLargeCalls(shared, ms),
    busy: () => exhaustOneUser('busy', shared),
    throttled: () => exhaustOneUser('throttled', shared),
    flood: () => flood(shared),
  };
  try {
    for (const [name, run] of Object.entries(modes).filter(([name]) => (values.only ?? name) === name)) {
      await run().catch((error: Error) => {
        console.error(`${name}: ${error.message}`);
        process.exitCode = 1;
      });
    }
  } finally {
    generator.stop();
  }
}

function createEnvironment(written: readonly string[]): Environment {
  return Object.fromEntries(
    written.map((one) => {
      const [, name, value] = /^(\w+)=(.*)$/s.exec(one) ?? [];
      if (name === undefined || value === undefined) throw new Error(`--env must be NAME=VALUE, got '${one}'`);
      return [name, value];
    }),
  );
}
