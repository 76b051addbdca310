import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { signal } from '../../test/helpers/child-processes.ts';
import { parseExposition } from '../../test/helpers/exposition.ts';
import { freePort } from '../../test/helpers/process.ts';
import { startWeir, type Weir } from '../../test/helpers/weir.ts';
import { readTree } from '../processes/process-tree.ts';
import { type ChaosRule, INSTANCES, ruleFile, WITH_WORKERS, WORKERS } from './rules.ts';

/** Instances of the built service that share rules and counters. */
export interface Fleet {
  /** The gRPC port of each instance. */
  readonly ports: readonly number[];
  /** An instance's counters as Prometheus reads them; undefined if it is down, or does not answer. */
  scrape(instance: number): Promise<Scrape | undefined>;
  /** Signals all processes of the instance. */
  signal(instance: number, signal: NodeJS.Signals): void;
  /** Resolves when the process has exited. */
  end(instance: number, signal: NodeJS.Signals): Promise<void>;
  /** Starts the instance again on the same port; resolves when it accepts calls. */
  start(instance: number): Promise<void>;
  /** Writes the same limits to a new file; resolves when the instances have had time to load it. */
  rewriteRules(): Promise<void>;
  /**
   * Replaces the rules by a broken file and restores them; resolves when the instances have had time to load both.
   *
   * @param meanwhile  called while the file is broken
   * @returns          the result of `meanwhile`
   */
  breakRules(meanwhile?: () => Promise<boolean>): Promise<boolean>;
  /**
   * Kills `count` workers of the instance with workers; resolves when new ones listen, with false if the instance is
   * down.
   */
  killWorkers(count: number): Promise<boolean>;
  stop(): Promise<void>;
}

/** The counters of an instance. */
export interface Scrape {
  /** The process that reports them. */
  readonly pid: number;
  readonly counters: ReadonlyMap<string, number>;
}

interface FleetOptions {
  /** The folder for the rules and the output of the instances. */
  readonly folder: string;
  /** The settings of each instance besides those that all of them have. */
  readonly envs: readonly Readonly<Record<string, string>>[];
  readonly rules: readonly ChaosRule[];
  /** Called when an instance exited by itself. */
  readonly onUnplanned: (instance: number) => void;
}

/** The service polls its rule files once a second. */
const RULES_SEEN_MS = 1_500;

interface Instance {
  readonly env: Readonly<Record<string, string>>;
  weir: Weir | undefined;
}

export async function startFleet({ folder, envs, rules, onUnplanned }: FleetOptions): Promise<Fleet> {
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
      ...(at === 0 && { LOCAL_CACHE_SIZE_IN_BYTES: '1000000' }), // the first instance caches refusals
      ...(WORKERS[at] !== 1 && { WORKERS: String(WORKERS[at]), LOG_LEVEL: 'info' }), // its log names the workers that listen
    };
    instances.push({ env: { ...envs[at], ...own, ...texts, RULES_PATH: rulesPath }, weir: undefined });
  }
  await Promise.all(instances.map((_, at) => launch(at)));

  const put = async (text: string): Promise<void> => {
    writeFileSync(`${rulesPath}.new`, text);
    renameSync(`${rulesPath}.new`, rulesPath);
    await sleep(RULES_SEEN_MS);
  };

  return {
    ports: instances.map((instance) => Number(instance.env.GRPC_PORT)),
    scrape: async (at) => {
      const weir = instances[at]?.weir;
      if (!weir) return undefined;
      const answered = fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)
        .then((response) => response.text())
        .catch(() => undefined); // it has ended
      const page = await Promise.race([answered, sleep(SCRAPE_TIMEOUT_MS, undefined)]); // it may be frozen or busy
      return page === undefined ? undefined : { pid: weir.pid, counters: parseCounters(page) };
    },
    signal(at, name) {
      const pid = instances[at]?.weir?.pid;
      for (const one of pid === undefined ? [] : readTree(pid)) signal(one, name);
    },
    end,
    start: launch,
    rewriteRules: () => put(`${ruleFile(rules)}\n# written ${++written} times\n`),
    async breakRules(meanwhile = async () => true) {
      await put('domain: [\n');
      const isDone = await meanwhile();
      await put(ruleFile(rules));
      return isDone;
    },
    async killWorkers(count) {
      const weir = instances[WITH_WORKERS]?.weir;
      if (!weir) return false;
      const before = listeningWorkers(weir.output());
      const killed = new Set(before.slice(-count));
      for (const pid of killed) process.kill(pid, 'SIGKILL');
      await weir.waitFor((output) => {
        const now = listeningWorkers(output);
        return now.length === before.length && !now.some((pid) => killed.has(pid));
      });
      return true;
    },
    async stop() {
      await Promise.all(instances.map((_, at) => end(at, 'SIGTERM')));
    },
  };
}

const SCRAPE_TIMEOUT_MS = 2_000;

/** The values that may only grow: of counters and histograms, by series. */
function parseCounters(page: string): ReadonlyMap<string, number> {
  const growing = Array.from(parseExposition(page)).filter(
    ([name, { type }]) => name.startsWith('weir_') && (type === 'counter' || type === 'histogram'),
  );
  return new Map(growing.flatMap(([, { samples }]) => [...samples]));
}

/** The process ids of the listening workers, newest last. */
function listeningWorkers(output: string): readonly number[] {
  const findPids = (pattern: RegExp) => Array.from(output.matchAll(pattern), ([, pid]) => Number(pid));
  const ended = new Set(findPids(/worker \d+ \(process (\d+)\) exited/g));
  return findPids(/worker \d+ \(process (\d+)\) is listening/g).filter((pid) => !ended.has(pid));
}
