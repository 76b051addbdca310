import type { Backend, Operation } from '../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import type { ChildNumbers } from '../../src/engine/holds/sharing.ts';
import type { FairShareLimit } from '../../src/parts/fair-shares/fair-share.ts';
import { type FluidChild, fluidRates } from '../parts/fair-shares/fluid.ts';
import { childOf, type Leaf, randomsOf, sharedSlotsOf, slotOf, spendOf } from './shares.ts';

/** A shared limit, and what its children ask for. */
export interface ShareTree {
  readonly rate: number;
  readonly burst: number;
  readonly children: readonly TreeChild[];
}

interface TreeChild {
  readonly id: number;
  readonly reserve: number;
  readonly weight: number;
  /** 0 for none. */
  readonly ceiling: number;
  /** Hits per second; of a leaf. */
  readonly demand: number;
  readonly children: readonly TreeChild[];
}

const RATES = [5, 20, 60, 150];

/** Any limit with one to three levels of children. */
export function anyShareTree(seed: number, levels: number): ShareTree {
  const random = randomsOf(seed);
  const rate = RATES[Math.floor(random() * RATES.length)] as number; // in range
  const burst = random() < 0.7 ? rate : Math.ceil(rate * (0.25 + random()));
  let ids = 0;
  const anyChildren = (depth: number, reserve: number, most: number): readonly TreeChild[] => {
    let left = reserve;
    return Array.from({ length: 1 + Math.floor(random() * 4) }, () => {
      const own = left > 0 && random() < 0.3 ? Math.floor(left * random() * 0.5) : 0;
      left -= own;
      const weight = 1 + Math.floor(random() * random() * 10);
      const ceiling = random() < 0.15 ? Math.min(Math.max(own, Math.ceil(rate * (0.2 + 0.6 * random()))), most) : 0;
      const demand = depth > 1 ? 0 : rate * 0.03 * 80 ** random();
      const id = ++ids;
      const children = depth > 1 ? anyChildren(depth - 1, own, ceiling || most) : [];
      return { id, reserve: own, weight, ceiling, demand, children };
    });
  };
  return { rate, burst, children: anyChildren(levels, rate, rate) };
}

const sumOf = (children: readonly TreeChild[]): number => children.reduce((sum, { reserve }) => sum + reserve, 0);

/** The leaves of a tree, in order. */
function leavesOf({ children }: Pick<ShareTree, 'children'>): readonly Leaf[] {
  const below = (child: TreeChild, ids: readonly number[], above: readonly ChildNumbers[]): readonly Leaf[] => {
    const { id, reserve, weight, ceiling, demand, children: own } = child;
    const path = [...above, childOf({ reserve, weight, ceiling, reserved: sumOf(own) })];
    const all = [...ids, id];
    return own.length === 0 ? [{ children: all, path, demand }] : own.flatMap((one) => below(one, all, path));
  };
  return children.flatMap((child) => below(child, [], []));
}

/** The limit of a tree. */
const limitOf = ({ rate, burst, children }: ShareTree, windowMs = 1_000): FairShareLimit => ({
  ...{ algorithm: 'fair_share', counter: `fair_share.3|${windowMs}`, requestsPerUnit: rate, soft: 0, windowMs },
  ...{ burst, by: 'tenant', path: [], reserved: sumOf(children) },
});

/** The same tree for the fluid model. @param asked  what each leaf has asked for in a second */
function fluidOf(children: readonly TreeChild[], asked: readonly number[]): readonly FluidChild[] {
  let leaf = 0;
  const convert = ({ reserve, weight, ceiling, children: own }: TreeChild): FluidChild => ({
    ...{ reserve, weight, ceiling: ceiling || Number.POSITIVE_INFINITY },
    demand: own.length === 0 ? (asked[leaf++] ?? 0) : 0,
    children: own.map(convert),
  });
  return children.map(convert);
}

interface Played {
  /** Hits per second of each leaf. */
  readonly asked: readonly number[];
  readonly passed: readonly number[];
  /** The most hits above an ordinary bucket of the limit's numbers; 0 or less if it was never exceeded. */
  readonly excess: number;
}

interface Stage {
  readonly stores: readonly Backend[];
  readonly clock: { (): number; advance(ms: number): void };
  readonly key: CounterKey;
  /** Milliseconds that are played first without being measured, and then measured. */
  readonly warmMs: number;
  readonly measuredMs: number;
  readonly seed: number;
}

/** Lets the leaves ask evenly, each at its own pace and in any order, alternately on each of the stores. */
async function playTree(tree: ShareTree, stage: Stage): Promise<Played> {
  const { stores, clock, key, warmMs, measuredMs, seed } = stage;
  const random = randomsOf(seed);
  const [leaves, whole] = [leavesOf(tree), limitOf(tree)];
  const operations = leaves.map((leaf): Operation => spendOf(key, whole, leaf));
  const due = leaves.map(() => random());
  const [asked, passed] = [leaves.map(() => 0), leaves.map(() => 0)];
  let [left, excess, turn] = [tree.burst * 1_000, 0, 0];
  for (let ms = 0; ms < warmMs + measuredMs; ms++) {
    const batch: number[] = [];
    const first = Math.floor(random() * leaves.length);
    for (let turned = 0; turned < leaves.length; turned++) {
      const at = (first + turned) % leaves.length;
      due[at] = (due[at] ?? 0) + (leaves[at]?.demand ?? 0) / 1_000;
      for (; (due[at] ?? 0) >= 1; due[at] = (due[at] ?? 0) - 1) batch.push(at);
    }
    const store = stores[turn++ % stores.length] as Backend; // in range
    const spends = batch.map((at) => operations[at] as Operation); // likewise
    const replies = spends.length === 0 ? [] : await store.run(spends, { spend: 'each', timeoutMs: 10_000 });
    for (const [place, at] of batch.entries()) {
      const reply = replies[place];
      if (!reply || 'reason' in reply) throw new Error(`no answer: ${JSON.stringify(reply)}`);
      const isOk = reply.code === 'OK';
      if (isOk) left -= 1_000;
      if (ms < warmMs) continue;
      asked[at] = (asked[at] ?? 0) + 1;
      if (isOk) passed[at] = (passed[at] ?? 0) + 1;
    }
    excess = Math.max(excess, -left / 1_000);
    left = Math.min(left + tree.rate, tree.burst * 1_000);
    clock.advance(1);
  }
  const perSecond = (hits: number): number => (hits * 1_000) / measuredMs;
  return { asked: asked.map(perSecond), passed: passed.map(perSecond), excess };
}

/** How long a request holds its slot on average, and after which time a leaf asks again for those that it lacks. */
const HOLD_MS = 400;
const RETRY_MS = 20;

/** Lets the leaves have as many requests in flight as they can, up to their demand. @returns the mean of each */
async function playSlots(tree: ShareTree, stage: Stage): Promise<Omit<Played, 'asked'>> {
  const { stores, clock, key, warmMs, measuredMs, seed } = stage;
  const random = randomsOf(seed);
  const [leaves, whole] = [leavesOf(tree), sharedSlotsOf(tree.rate, 5_000, { by: 'tenant' })];
  const held = leaves.map((): { readonly holder: number; readonly untilMs: number }[] => []);
  const sums = leaves.map(() => 0);
  let [turn, holders, most] = [0, 1_000, 0];
  for (let ms = 0; ms < warmMs + measuredMs; ms += RETRY_MS) {
    clock.advance(RETRY_MS);
    const run: { readonly at: number; readonly holder: number; readonly hits: number }[] = [];
    for (const [at, own] of held.entries()) {
      const ended = own.filter(({ untilMs }) => untilMs <= clock());
      for (const { holder } of ended) run.push({ at, holder, hits: -1 });
      held[at] = own.filter((one) => !ended.includes(one));
    }
    const first = Math.floor(random() * leaves.length);
    for (let turned = 0; turned < leaves.length; turned++) {
      const at = (first + turned) % leaves.length;
      const lacking = wantedSlots(leaves[at]) - (held[at]?.length ?? 0);
      for (let one = 0; one < lacking; one++) run.push({ at, holder: ++holders, hits: 1 });
    }
    const store = stores[turn++ % stores.length] as Backend; // in range
    const spends = run.map(({ at, ...more }) => slotOf(key, whole, leaves[at] as Leaf, more)); // likewise
    const replies = spends.length === 0 ? [] : await store.run(spends, { spend: 'each', timeoutMs: 10_000 });
    for (const [place, { at, holder, hits }] of run.entries()) {
      const reply = replies[place];
      if (!reply || 'reason' in reply) throw new Error(`no answer: ${JSON.stringify(reply)}`);
      if (hits > 0 && reply.code === 'OK') held[at]?.push({ holder, untilMs: clock() + HOLD_MS * (0.5 + random()) });
    }
    most = Math.max(most, held.flat().length);
    if (ms >= warmMs) for (const [at, own] of held.entries()) sums[at] = (sums[at] ?? 0) + own.length;
  }
  return { passed: sums.map((sum) => (sum * RETRY_MS) / measuredMs), excess: most - tree.rate };
}

const wantedSlots = (leaf: Pick<Leaf, 'demand'> | undefined): number => Math.ceil(leaf?.demand ?? 0);

/** Time before the measurement, and its own. */
const WARM_MS = 5_000;
const MEASURED_MS = 10_000;

/** What a child got beside its share by the fluid model, in hits per second or slots. */
export interface MeasuredChild {
  readonly asked: number;
  readonly share: number;
  readonly got: number;
  /** The difference in tolerances: 5 % of the share or 2, whichever is larger. */
  readonly off: number;
}

const compare = (shares: readonly number[], { asked, passed }: Pick<Played, 'asked' | 'passed'>) =>
  shares.map((share, leaf): MeasuredChild => {
    const got = passed[leaf] ?? 0;
    return { asked: asked[leaf] ?? 0, share, got, off: Math.abs(got - share) / Math.max(0.05 * share, 2) };
  });

/** The child that is off most. */
export const findWorst = (children: readonly MeasuredChild[]): MeasuredChild =>
  children.reduce((worst, child) => (child.off > worst.off ? child : worst));

type TreeStage = Omit<Stage, 'warmMs' | 'measuredMs'>;

/** How far hits per second are from the fluid model. */
export async function measureTree(tree: ShareTree, stage: TreeStage) {
  const played = await playTree(tree, { ...stage, warmMs: WARM_MS, measuredMs: MEASURED_MS });
  const shares = fluidRates(tree.rate, fluidOf(tree.children, played.asked));
  return { children: compare(shares, played), excess: played.excess };
}

/** The same children, which keep the slots of their reservations that they do not use. */
const withKept = (children: readonly FluidChild[]): readonly FluidChild[] =>
  children.map((child) => ({
    ...child,
    demand: Math.max(child.demand, child.reserve),
    children: withKept(child.children),
  }));

/** How far slots are from the fluid model of those that are not left to children that come next. */
export async function measureSlots(tree: ShareTree, stage: TreeStage) {
  const asked = leavesOf(tree).map(wantedSlots);
  const spare = Math.min(Math.max(Math.floor(tree.rate / 20), 1), tree.rate - 1);
  const played = await playSlots(tree, { ...stage, warmMs: 3_000, measuredMs: 5_000 });
  const shares = fluidRates(tree.rate - spare, withKept(fluidOf(tree.children, asked)));
  const own = shares.map((share, at) => Math.min(share, asked[at] ?? 0));
  return { children: compare(own, { ...played, asked }), excess: played.excess };
}
