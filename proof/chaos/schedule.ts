import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { mersenne } from 'pure-rand/generator/mersenne';
import { INSTANCES, type Topology, topologies } from './rules.ts';

/** A source of random numbers. */
export interface Draw {
  /** An integer from `from` to `to`, inclusive. */
  whole(from: number, to: number): number;
  /** An item of a non-empty list. */
  pick<T>(from: readonly T[]): T;
}

/** Draws the same numbers for the same seed. */
export function createDraw(seed: number): Draw {
  const generator = mersenne(seed); // the first numbers of similar seeds differ
  const whole = (from: number, to: number): number => uniformInt(generator, from, to);
  const pick = <T>(from: readonly T[]): T => {
    const [picked] = from.slice(whole(0, from.length - 1));
    if (picked === undefined) throw new RangeError('there must be something to pick from, got nothing');
    return picked;
  };
  return { whole, pick };
}

export type StoreFaultKind =
  | 'frozen'
  | 'stopped'
  | 'replies lost'
  | 'replies lost, closed'
  | 'requests lost'
  | 'unreachable'
  | 'restarted'
  | 'crashed'
  | 'emptied'
  | 'flushed'
  | 'paused'
  | 'scripts flushed'
  | 'disconnected'
  | 'out of memory'
  | MasterLoss
  | 'dead returned'
  | 'frozen returned';
type MasterLoss = 'master killed' | 'master frozen';
export type InstanceFaultKind =
  | 'instance killed'
  | 'instance terminated'
  | 'instance frozen'
  | 'worker killed'
  | 'workers killed'
  | 'worker killed, rules broken'
  | 'rules rewritten'
  | 'rules broken';

/** A scheduled fault. */
export interface PlannedFault<K = StoreFaultKind | InstanceFaultKind> {
  readonly kind: K;
  readonly forMs: number;
  /** The number of the instance or master, modulo their count. */
  readonly target: number;
}

/** A calm period, then one fault or two simultaneous ones. */
export interface Step {
  readonly calmMs: number;
  readonly store?: PlannedFault<StoreFaultKind>;
  readonly instance?: PlannedFault<InstanceFaultKind>;
}

/** Minimum and maximum duration, in milliseconds. */
type Range = readonly [number, number];

const AT_ONCE: Range = [0, 0];
/** Shorter than a call waits, or longer, so that circuits open. */
const FOR_A_WHILE: Range = [100, 2_500];
/** Long enough for several attempts to connect, and for TCP's retransmission backoff to grow. */
const FOR_LONG: Range = [1_500, 5_000];
/** Shorter or longer than a replica waits before it takes over. */
const SHORTLY: Range = [300, 3_000];
/** Shorter than the nodes of a Cluster take to detect a failed node. */
const BRIEFLY: Range = [50, 900];

const losses = {
  'replies lost': FOR_A_WHILE,
  'replies lost, closed': FOR_A_WHILE,
  'requests lost': FOR_A_WHILE,
} as const;

const ofOneServer: Readonly<Partial<Record<StoreFaultKind, Range>>> = {
  ...losses,
  frozen: FOR_A_WHILE,
  restarted: FOR_A_WHILE,
  crashed: FOR_A_WHILE,
  emptied: FOR_A_WHILE,
  flushed: AT_ONCE,
  unreachable: FOR_LONG,
  paused: FOR_A_WHILE,
  'scripts flushed': AT_ONCE,
  disconnected: AT_ONCE,
  'out of memory': FOR_A_WHILE,
};

const storeFaults: { readonly [T in Topology]: Readonly<Partial<Record<StoreFaultKind, Range>>> } = {
  single: ofOneServer,
  redis6: ofOneServer,
  sentinel: {
    flushed: AT_ONCE,
    'scripts flushed': AT_ONCE,
    disconnected: AT_ONCE,
    'out of memory': FOR_A_WHILE,
    'master killed': AT_ONCE,
    'master frozen': AT_ONCE,
    stopped: SHORTLY,
    ...losses,
  },
  cluster: {
    frozen: BRIEFLY,
    restarted: AT_ONCE,
    flushed: AT_ONCE,
    paused: BRIEFLY,
    'scripts flushed': AT_ONCE,
    disconnected: AT_ONCE,
    'out of memory': FOR_A_WHILE,
    'master killed': AT_ONCE,
    'master frozen': AT_ONCE,
    stopped: SHORTLY,
    ...losses,
  },
  memcached: { frozen: FOR_A_WHILE, unreachable: FOR_LONG, emptied: FOR_A_WHILE, flushed: AT_ONCE, ...losses },
};

const instanceFaults: Readonly<Record<InstanceFaultKind, Range>> = {
  'instance killed': [0, 1_500],
  'instance terminated': [0, 1_500],
  'instance frozen': [100, 2_500],
  'worker killed': AT_ONCE,
  'workers killed': AT_ONCE,
  'worker killed, rules broken': AT_ONCE,
  'rules rewritten': AT_ONCE,
  'rules broken': AT_ONCE,
};

/** A lost master returns in the next step. */
const returns = { 'master killed': 'dead returned', 'master frozen': 'frozen returned' } as const satisfies Record<
  MasterLoss,
  StoreFaultKind
>;

/** Every kind of fault, over all topologies. */
export const faultKinds: ReadonlySet<string> = new Set([
  ...topologies.flatMap((topology) => Object.keys(storeFaults[topology])),
  ...Object.values(returns),
  ...Object.keys(instanceFaults),
]);

/** The kinds of a run's faults, in order. */
export const plannedKinds = (steps: readonly Step[]): readonly (StoreFaultKind | InstanceFaultKind)[] =>
  steps.flatMap(({ store, instance }) => [...(store ? [store.kind] : []), ...(instance ? [instance.kind] : [])]);

/** Whether a replica must take over. */
export const isMasterLoss = (kind: StoreFaultKind): kind is MasterLoss => kind in returns;

/** Maximum number of masters of a topology, that of a Cluster. */
const MAX_MASTERS = 3;

const CALM_MS: Range = [2_000, 6_000];
/** The approximate length of a step besides its calm period. */
const STEP_MS = 1_500;

export interface ScheduleOptions {
  readonly seed: number;
  /** The length of the schedule; starting, waiting and stopping take additional time. */
  readonly lengthMs: number;
  /** Minimum and maximum duration of calm periods; default: 2 to 6 seconds. */
  readonly calmMs?: Range | undefined;
}

/** The faults of a run, the same for the same seed. Each kind occurs once before any occurs twice. */
export function createSchedule(topology: Topology, { seed, lengthMs, calmMs: calm }: ScheduleOptions): readonly Step[] {
  const [minCalmMs, maxCalmMs] = calm ?? CALM_MS;
  const draw = createDraw(seed);
  const storeDeck = createDeck(storeFaults[topology], MAX_MASTERS, draw);
  const instanceDeck = createDeck(instanceFaults, INSTANCES, draw);
  const steps: Step[] = [];
  for (let atMs = 0; atMs < lengthMs; ) {
    const calmMs = draw.whole(minCalmMs, maxCalmMs);
    const what = draw.pick(['store', 'store', 'instance', 'both']);
    const store = what === 'instance' ? undefined : storeDeck();
    const instance = what === 'store' ? undefined : instanceDeck();
    steps.push({ calmMs, ...(store && { store }), ...(instance && { instance }) });
    atMs += calmMs + STEP_MS;
    if (!store || !isMasterLoss(store.kind)) continue;
    steps.push({ calmMs: minCalmMs, store: { ...store, kind: returns[store.kind] } });
    atMs += minCalmMs + STEP_MS;
  }
  return steps;
}

/** Draws each kind once in random order, then all of them again. */
function createDeck<K extends string>(
  ranges: Readonly<Partial<Record<K, Range>>>,
  targets: number,
  draw: Draw,
): () => PlannedFault<K> | undefined {
  let deck: [K, Range][] = [];
  return () => {
    if (deck.length === 0) deck = Object.entries(ranges) as [K, Range][]; // the keys and values of `ranges`
    const [dealt] = deck.splice(draw.whole(0, deck.length - 1), 1);
    return dealt && { kind: dealt[0], forMs: draw.whole(...dealt[1]), target: draw.whole(0, targets - 1) };
  };
}
