import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../test/helpers/process.ts';
import { startWeir, type Weir } from '../test/helpers/weir.ts';
import { type ChaosRule, INSTANCES, ruleFile, WITH_WORKERS, WORKERS } from './rules.ts';

/** Instances of the built service, with the same rules and the same counters. */
export interface Fleet {
  /** Of gRPC, by instance. */
  readonly ports: readonly number[];
  signal(instance: number, signal: NodeJS.Signals): void;
  /** Resolves when the process is gone. */
  end(instance: number, signal: NodeJS.Signals): Promise<void>;
  /** On the same port; resolves when it takes calls. */
  start(instance: number): Promise<void>;
  /** The same limits in a new file; resolves when the instances have had the time to see it. */
  rewriteRules(): Promise<void>;
  /** A broken file in the place of the rules, and the right one again; resolves when the instances have had the time to see both. */
  breakRules(): Promise<void>;
  /** Kills a worker of the instance that has some; resolves when another one listens. */
  killWorker(): Promise<void>;
  stop(): Promise<void>;
}

export interface FleetOptions {
  /** For the rules, and for what the instances print. */
  readonly folder: string;
  /** Besides what every instance is given. */
  readonly env: Readonly<Record<string, string>>;
  readonly rules: readonly ChaosRule[];
  /** Called when an instance ended by itself. */
  readonly onUnplanned: (instance: number) => void;
}

/** The service polls its rule files once a second. */
const RULES_SEEN_MS = 1_500;

interface Instance {
  readonly env: Readonly<Record<string, string>>;
  weir: Weir | undefined;
}

export async function startFleet({ folder, env, rules, onUnplanned }: FleetOptions): Promise<Fleet> {
  const rulesPath = join(folder, 'rules.yaml');
  writeFileSync(rulesPath, ruleFile(rules));
  const instances: Instance[] = [];
  let written = 0;

  const launch = async (at: number): Promise<void> => {
    const instance = instances[at];
    if (!instance) throw new RangeError(`instance must be below ${instances.length}, got ${at}`);
    const weir = await startWeir(instance.env);
    instance.weir = weir;
    void weir.exited.then(() => {
      appendFileSync(join(folder, `instance-${at}.log`), weir.output());
      if (instance.weir === weir) onUnplanned(at);
    });
  };
  const end = async (at: number, signal: NodeJS.Signals): Promise<void> => {
    const instance = instances[at];
    const weir = instance?.weir;
    if (!instance || !weir) return;
    instance.weir = undefined;
    await weir.stop(signal);
  };

  for (let at = 0; at < INSTANCES; at++) {
    const ports = { GRPC_PORT: await freePort(), PORT: await freePort(), DEBUG_PORT: await freePort() };
    const texts = Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)]));
    const own = {
      ...(at === 0 && { LOCAL_CACHE_SIZE_IN_BYTES: '1000000' }), // one remembers refusals
      ...(WORKERS[at] !== 1 && { WORKERS: String(WORKERS[at]), LOG_LEVEL: 'info' }), // which says which workers listen
    };
    instances.push({ env: { ...env, ...own, ...texts, RULES_PATH: rulesPath }, weir: undefined });
  }
  await Promise.all(instances.map((_, at) => launch(at)));

  const put = async (text: string): Promise<void> => {
    writeFileSync(`${rulesPath}.new`, text);
    renameSync(`${rulesPath}.new`, rulesPath);
    await sleep(RULES_SEEN_MS);
  };

  return {
    ports: instances.map((instance) => Number(instance.env.GRPC_PORT)),
    signal(at, signal) {
      const pid = instances[at]?.weir?.pid;
      if (pid !== undefined) process.kill(pid, signal);
    },
    end,
    start: launch,
    rewriteRules: () => put(`${ruleFile(rules)}\n# written ${++written} times\n`),
    async breakRules() {
      await put('domain: [\n');
      await put(ruleFile(rules));
    },
    async killWorker() {
      const weir = instances[WITH_WORKERS]?.weir;
      const [pid, ...others] = listeningWorkers(weir?.output() ?? '').toReversed();
      if (!weir || pid === undefined) return; // the instance is down
      process.kill(pid, 'SIGKILL');
      await weir.waitFor((output) => listeningWorkers(output).length > others.length + 1);
    },
    async stop() {
      await Promise.all(instances.map((_, at) => end(at, 'SIGTERM')));
    },
  };
}

/** The processes of the workers that listen or have listened, the newest last. */
const listeningWorkers = (output: string): readonly number[] =>
  Array.from(output.matchAll(/worker \d+ \(process (\d+)\) listens/g), ([, pid]) => Number(pid));
