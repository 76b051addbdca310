import type { Hash } from '../../base/hashed.ts';
import { createResponseHeaders } from '../../edge/rls/headers.ts';
import { ReadinessCheck } from '../../edge/rls/health.ts';
import { createDynamicMetadata } from '../../edge/rls/metadata.ts';
import { createEngine } from '../../engine/create-engine.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ReceivedRules } from '../link/rules-messages.ts';
import { openHash } from '../parts/hash.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts } from '../parts/start-up.ts';
import { loggedCounters, startStore } from './store.ts';

/** The counters and rules of a decider, and the parts that depend on them. */
export type DeciderCore = Awaited<ReturnType<typeof openDeciderCore>>;

/**
 * Waits for the first rules of the control process, then opens the counters.
 *
 * @throws CannotStart if the settings of the store cannot be used
 */
export async function openDeciderCore(
  { counters, decisions, answers, admin, readiness }: Settings,
  rules: ReceivedRules,
  context: ProcessContext,
) {
  await rules.arrived;
  return openParts(async (add) => {
    const options = loggedCounters(counters, context);
    const hash = add(openHash(admin));
    const tree = hash.hash ? withHashedNames(rules.book.rules, hash.hash) : rules.book.rules;
    const engine = add(
      await startStore(() => createEngine({ ...options, ...decisions, rules: { tree }, startWaitMs: 0 })),
    );
    const { store, decider } = engine;
    hash.shareIn(store.records);
    return {
      store,
      rules,
      /** The dependencies of decisions. */
      decider,
      /** Hashes values that callers sent, if `HASH_KEYS` is set. */
      hash: hash.hash,
      /** Resolves when the hashes are those of all instances, or the store cannot be reached. */
      shareHashKey: hash.share,
      /** Headers and metadata of answers. */
      extras: {
        headers: createResponseHeaders(answers.headers),
        metadata: createDynamicMetadata(answers.metadata),
        maxWaitMs: answers.headers.maxWaitMs,
      },
      /** Close it before all other parts. */
      readiness: new ReadinessCheck(readiness, { rules: rules.book.rules, store, clock: context.clock }),
    };
  });
}

/** The same rules, except that statistics show hashes of callers' values. */
function withHashedNames(rules: () => RuleTree | undefined, hash: Hash): () => RuleTree | undefined {
  let source: RuleTree | undefined;
  let named: RuleTree | undefined;
  return () => {
    const tree = rules();
    if (tree !== source) named = tree && { ...tree, shownValue: hash };
    source = tree;
    return named;
  };
}
