import { setTimeout as sleep } from 'node:timers/promises';
import { startBlackHole } from '../../test/helpers/black-hole.ts';
import type { Loss } from '../../test/helpers/lossy-proxy.ts';
import type { Fleet } from './fleet.ts';
import type { Effect } from './log.ts';
import type { InstanceFaultKind, PlannedFault, StoreFaultKind } from './schedule.ts';
import { type ChaosServer, type ChaosStore, command } from './stores.ts';

/** The effects of a fault on counters, besides failed calls. */
export const faultEffects: { readonly [K in StoreFaultKind | InstanceFaultKind]?: readonly Effect[] } = {
  frozen: ['clock_frozen'],
  stopped: ['data_lost', 'clock_frozen'], // a replica may have taken over
  unreachable: ['clock_frozen'],
  emptied: ['data_lost'],
  flushed: ['data_lost'],
  'master killed': ['data_lost'], // writes that were not replicated yet
  'master frozen': ['data_lost', 'clock_frozen'],
  'frozen returned': ['data_lost'], // it acts as a master until a sentinel demotes it
  'instance killed': ['local_lost'],
  'instance terminated': ['local_lost'],
  'worker killed': ['local_lost'],
  'workers killed': ['local_lost'],
  'worker killed, rules broken': ['local_lost'],
};

/** How long a fault waits for a request that it can affect, since a busy machine sends few. */
const AFFECTED_WITHIN_MS = 30_000;
const POLL_MS = 25;

/** Resolves when the fault is over, with false if there was no target. */
type Do<K> = (fault: PlannedFault<K>) => Promise<unknown>;

/** Injects faults into the counters. */
export function createStoreFaults(store: ChaosStore): Do<StoreFaultKind> {
  let lost: ChaosServer | undefined; // a master that was replaced
  const oneMaster = async (target: number): Promise<ChaosServer> => {
    const masters = await store.masters();
    const chosen = masters[target % masters.length];
    if (!chosen) throw new Error('there must be a master, got none');
    return chosen;
  };
  const toEach = async (name: string, ...args: (string | number)[]): Promise<void> => {
    await Promise.all((await store.masters()).map((master) => command(master, name, ...args)));
  };
  const restart = async ({ forMs, target }: PlannedFault, end: 'stop' | 'kill', meanwhile = (): void => {}) => {
    const master = await oneMaster(target);
    await master[end]();
    meanwhile();
    await sleep(forMs);
    await master.restart();
  };
  /** Whether a connection lost something; the proxies are not in use after a failover. */
  const lose = async (what: Loss, { forMs }: PlannedFault): Promise<boolean> => {
    const affected = (): number => store.proxies.reduce((total, proxy) => total + proxy.affected, 0);
    const isUsed = (): boolean => store.proxies.some(({ connections }) => connections.size > 0);
    const before = affected();
    for (const proxy of store.proxies) proxy.lose(what);
    await sleep(forMs);
    const endMs = performance.now() + AFFECTED_WITHIN_MS;
    while (affected() === before && isUsed() && performance.now() < endMs) await sleep(POLL_MS);
    for (const proxy of store.proxies) proxy.lose(undefined);
    return affected() > before;
  };
  const loseMaster = async ({ target }: PlannedFault, how: 'kill' | 'pause'): Promise<void> => {
    lost = await oneMaster(target);
    await lost[how]();
    await store.replaced(lost);
  };
  const comeBack = async (how: 'restart' | 'resume'): Promise<void> => {
    if (!lost) throw new Error('a master must be lost before it returns');
    await lost[how]();
    await store.rejoined(lost);
  };
  const acts: Readonly<Record<StoreFaultKind, Do<StoreFaultKind>>> = {
    async frozen({ forMs, target }) {
      const master = await oneMaster(target);
      master.pause();
      await sleep(forMs);
      master.resume();
    },
    async stopped({ forMs, target }) {
      const before = await store.masters();
      const master = await oneMaster(target);
      master.pause();
      await sleep(forMs);
      master.resume();
      const hasTwo = (await store.masters()).length > before.length;
      await (hasTwo ? store.rejoined(master) : store.whole());
    },
    'replies lost': (fault) => lose('replies', fault),
    'replies lost, closed': (fault) => lose('replies, closing', fault),
    'requests lost': (fault) => lose('requests', fault),
    async unreachable({ forMs, target }) {
      const hole = await startBlackHole(await oneMaster(target));
      await sleep(forMs);
      await hole.end();
    },
    restarted: (fault) => restart(fault, 'stop'),
    crashed: (fault) => restart(fault, 'kill'),
    emptied: (fault) => restart(fault, 'stop', store.forget),
    flushed: () => store.flush(),
    async paused({ forMs }) {
      await toEach('CLIENT', 'PAUSE', forMs, 'ALL');
      await sleep(forMs);
    },
    'scripts flushed': () => toEach('SCRIPT', 'FLUSH'),
    disconnected: () => toEach('CLIENT', 'KILL', 'TYPE', 'normal'),
    async 'out of memory'({ forMs }) {
      await toEach('CONFIG', 'SET', 'maxmemory', 1);
      await sleep(forMs);
      await toEach('CONFIG', 'SET', 'maxmemory', 0);
    },
    'master killed': (fault) => loseMaster(fault, 'kill'),
    'master frozen': (fault) => loseMaster(fault, 'pause'),
    'dead returned': () => comeBack('restart'),
    'frozen returned': () => comeBack('resume'),
  };
  return (fault) => acts[fault.kind](fault);
}

/** Injects faults into an instance of the service. */
export function createInstanceFaults(fleet: Fleet): Do<InstanceFaultKind> {
  const restart = async ({ target, forMs }: PlannedFault, signal: NodeJS.Signals): Promise<void> => {
    await fleet.end(target, signal);
    await sleep(forMs);
    await fleet.start(target);
  };
  const acts: Readonly<Record<InstanceFaultKind, Do<InstanceFaultKind>>> = {
    'instance killed': (fault) => restart(fault, 'SIGKILL'),
    'instance terminated': (fault) => restart(fault, 'SIGTERM'),
    async 'instance frozen'({ target, forMs }) {
      fleet.signal(target, 'SIGSTOP');
      await sleep(forMs);
      fleet.signal(target, 'SIGCONT');
    },
    'rules rewritten': () => fleet.rewriteRules(),
    'rules broken': () => fleet.breakRules(),
    'worker killed': () => fleet.killWorkers(1),
    'workers killed': () => fleet.killWorkers(2),
    'worker killed, rules broken': () => fleet.breakRules(() => fleet.killWorkers(1)),
  };
  return (fault) => acts[fault.kind](fault);
}
