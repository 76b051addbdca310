import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import { formatProblem } from '../../src/engine/rules/read/problem.ts';
import { loadRules } from '../../src/engine/rules/reload/load.ts';
import type { Proposal, RuleAdvice } from '../../src/parts/advise/answers.ts';
import { hasProposal, overlayText } from '../../src/parts/advise/render-advice.ts';
import { RuleSketches } from '../../src/parts/advise/rule-sketches.ts';
import { ReplayEngine, replay } from '../../src/parts/replay/engine.ts';
import { TrafficCounts } from '../../src/parts/replay/input.ts';
import type { RecordedTraffic, ReplayObserver } from '../../src/parts/replay/request.ts';
import type { AdviseModel } from './advise-models.ts';

/** The effect of a proposal on traffic that the advisor has not seen. */
interface Judgement {
  readonly proposal: Proposal;
  /** The fraction of legitimate keys with a refused request. */
  readonly legitimateHit: number;
  /** The same for abusive keys, if any. */
  readonly abusiveHit: number | undefined;
  /** The refused fraction of abusive keys' requests, if any. */
  readonly abusiveRefused: number | undefined;
}

/** The keys, requests and refused keys of one side: legitimate or abusive. */
class Side {
  readonly keys = new Set<string>();
  readonly hit = new Set<string>();
  requests = 0;
  refused = 0;
}

const bounds = { keys: 100_000, keysOfRule: 20_000, admittedKeys: 10_000 };

/** The advice on a model's limit. */
export async function adviceOn(model: AdviseModel, seed: number): Promise<RuleAdvice> {
  const tree = loadTree(model.rules);
  const sketches = new RuleSketches(bounds, 1);
  sketches.follow(tree);
  await run(tree, model.traffic(seed), sketches);
  const [advice] = sketches.advice({ maxKeysHit: 0.01, shownKey: (key) => key });
  if (!advice) throw new Error(`no request of ${model.name} met the rule`);
  return advice;
}

/** Applies the proposal to other traffic of the same model, with the service's own code. */
export async function judge(model: AdviseModel, seed: number, otherSeed: number): Promise<Judgement> {
  const advice = await adviceOn(model, seed);
  if (!hasProposal(advice)) throw new Error(`${model.name}, seed ${seed}: ${advice.refusal}`);
  const sides = { allow: new Side(), refuse: new Side() };
  await run(loadTree(model.rules, overlayText([advice])), model.traffic(otherSeed), {
    observe({ request: { descriptors }, label = 'allow' }, { descriptors: answers }) {
      const key = descriptors[0]?.entries[0]?.value ?? '';
      const side = sides[label];
      side.keys.add(key);
      side.requests++;
      if (answers[0]?.code !== 'OVER_LIMIT') return;
      side.hit.add(key);
      side.refused++;
    },
  });
  const { allow, refuse } = sides;
  const isAny = refuse.requests > 0;
  return {
    proposal: advice.proposal,
    legitimateHit: allow.hit.size / allow.keys.size,
    abusiveHit: isAny ? refuse.hit.size / refuse.keys.size : undefined,
    abusiveRefused: isAny ? refuse.refused / refuse.requests : undefined,
  };
}

async function run(tree: RuleTree, traffic: RecordedTraffic, observer: ReplayObserver): Promise<void> {
  const memory = { maxCounters: 1_000_000, maxBytes: 2 ** 30 };
  const rules = new ReplayEngine(tree, { shadowMode: false, quotaMode: false, spend: 'each', memory });
  await replay(traffic, {
    rules,
    against: undefined,
    observers: [observer],
    counts: new TrafficCounts(),
    onBatch: () => {},
  });
}

function loadTree(text: string, overlay?: string): RuleTree {
  const loaded = loadRules([{ name: 'rules', path: 'rules', text }], {
    mergeDomains: false,
    overlay: overlay === undefined ? [] : [{ name: 'advice', text: overlay }],
  });
  if (loaded.ok) return loaded.rules;
  throw new Error(loaded.problems.map(formatProblem).join('\n'));
}
