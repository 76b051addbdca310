import { printableJson, printableLines } from '../../base/printable.ts';
import { DEFAULT_MAX_KEYS_HIT } from '../../lab/advise/propose.ts';
import { adviceText, hasProposal, overlayText } from '../../lab/advise/render-advice.ts';
import { RuleSketches } from '../../lab/advise/rule-sketches.ts';
import type { Advice, AdvisedLimit } from '../../lab/advise/shapes.ts';
import { TrafficObserver } from '../../lab/advise/traffic-observer.ts';
import { ReplayEngine } from '../../lab/replay/engine.ts';
import { HashedValues } from '../../lab/replay/hashed-values.ts';
import { openInput, STANDARD_INPUT } from '../../lab/replay/input.ts';
import { Progress } from '../../lab/replay/progress.ts';
import type { LogFormatName } from '../../lab/replay/readers/format-names.ts';
import { RecordingNotes } from '../../lab/replay/recording-notes.ts';
import { replay } from '../../lab/replay/replay.ts';
import { readableKey } from '../../lab/replay/report.ts';
import { TrafficCounts } from '../../lab/replay/traffic.ts';
import { CommandFailed, callApi } from './client.ts';
import { forTerminal } from './for-terminal.ts';
import { loadRulesAt } from './load-rules.ts';
import { engineOptionsOf, settingsOf, totalOf, trafficOf } from './run-replay.ts';
import type { ReplaySurroundings } from './traffic-input.ts';

/** Options of `weir advise`. */
interface AdviseFlags {
  /** Absent: only with `from`. */
  readonly rules?: string;
  readonly overlay: readonly string[];
  readonly mapping?: string;
  readonly format?: LogFormatName;
  /** Milliseconds; absent: the default for the kind of input. */
  readonly reorder?: number;
  /** The debug port of a running service. */
  readonly from?: string;
  readonly token?: string;
  readonly ca?: string;
  readonly domain?: string;
  readonly rule?: string;
  /** Above 0, below 1. */
  readonly maxKeysHit?: number;
  readonly json: boolean;
  readonly yaml: boolean;
}

/** At about 1,000 bytes for each followed key, and 400 for its hits around boundaries: at most 140 MB. */
const BOUNDS = { keys: 100_000, keysOfRule: 20_000, admittedKeys: 100_000 };

/** Fixed, so that the same input leads to the same samples of keys. */
const SEED = 1;

/**
 * Prints advice on the limits of rules.
 *
 * @throws CommandFailed    invalid flags, rules or settings, or nothing to print as YAML
 * @throws UnreadableInput
 */
export async function runAdvise(
  files: readonly string[],
  flags: AdviseFlags,
  surroundings: ReplaySurroundings,
): Promise<void> {
  if (flags.json && flags.yaml) throw new CommandFailed('give one of --json and --yaml, got both');
  const advised = await (flags.from === undefined
    ? adviceOnFiles(files, flags, surroundings)
    : adviceOfService(flags.from, files, flags));
  surroundings.print(
    flags.json ? printableJson(advised) : flags.yaml ? printableLines(yamlOf(advised)) : textOf(forTerminal(advised)),
  );
}

async function adviceOnFiles(
  files: readonly string[],
  flags: AdviseFlags,
  { env, input, showProgress }: ReplaySurroundings,
): Promise<Advice> {
  const { rules: path, overlay, maxKeysHit = DEFAULT_MAX_KEYS_HIT } = flags;
  if (path === undefined) throw new CommandFailed('expected --rules, a rule file or directory, or --from; got none');
  const settings = await settingsOf(env);
  const tree = await loadRulesAt(path, overlay, settings);
  const sketches = new RuleSketches(BOUNDS, SEED);
  sketches.follow(tree);
  const paths = files.length > 0 ? files : [STANDARD_INPUT];
  const inputs = await Promise.all(paths.map((file) => openInput(file, input)));
  const counts = new TrafficCounts();
  const hashed = new HashedValues([tree]);
  const notes = new RecordingNotes(settings, hashed);
  const traffic = await trafficOf(inputs, flags, notes, counts);
  const progress = showProgress && new Progress(totalOf(inputs), showProgress, () => performance.now());
  await replay(traffic, {
    rules: new ReplayEngine(tree, engineOptionsOf(settings)),
    against: undefined,
    counts,
    observers: [new TrafficObserver(sketches), hashed],
    onBatch: () => progress?.show(counts.bytes, counts.lines),
  });
  progress?.clear();
  const isMeant = filterOf(flags);
  return {
    limits: [...sketches.advice({ maxKeysHit, shownKey: readableKey }, isMeant)],
    skipped: sketches.skipped(isMeant),
    warnings: [...counts.notes, ...notes.warnings(), ...unusedOf(counts, flags)],
  };
}

function unusedOf(
  { broken, examples, late, unmapped }: TrafficCounts,
  { mapping }: Pick<AdviseFlags, 'mapping'>,
): readonly string[] {
  const hint = mapping === undefined ? ' (an access log needs --mapping)' : '';
  return [
    ...(broken > 0 ? [`${broken} broken lines were skipped${hint}: ${examples.join('; ')}`] : []),
    ...(late > 0 ? [`${late} requests were too far out of order to be sorted (--reorder)`] : []),
    ...(unmapped > 0 ? [`${unmapped} requests get no descriptor from the mapping`] : []),
  ];
}

async function adviceOfService(from: string, files: readonly string[], flags: AdviseFlags): Promise<Advice> {
  const { token, ca, domain, rule, maxKeysHit, rules, mapping } = flags;
  if (files.length > 0 || rules !== undefined || mapping !== undefined)
    throw new CommandFailed(
      '--from uses the rules and the traffic of the service: remove files, --rules and --mapping',
    );
  const keysHitPerMillion = maxKeysHit === undefined ? undefined : Math.max(Math.round(maxKeysHit * 1e6), 1);
  const query = { domain, rule, keysHitPerMillion };
  return callApi({ target: from, token, ca }, { operation: 'GET /api/v1/advice', query });
}

const filterOf =
  ({ domain, rule }: Pick<AdviseFlags, 'domain' | 'rule'>) =>
  (limit: Pick<AdvisedLimit, 'domain' | 'rule'>): boolean =>
    (domain === undefined || limit.domain === domain) && (rule === undefined || limit.rule === rule);

const textOf = ({ warnings, ...advice }: Advice): string =>
  [adviceText(advice), ...warnings.map((text) => `warning: ${text}`)].join('\n\n');

/** @throws CommandFailed  there are no proposals, or proposals for several domains: an overlay has one */
function yamlOf({ limits }: Advice): string {
  const proposed = limits.filter(hasProposal);
  const domains = [...new Set(proposed.map(({ limit }) => limit.domain))];
  if (domains.length === 1) return overlayText(proposed).trimEnd();
  if (domains.length > 1)
    throw new CommandFailed(`an overlay has one domain: choose one with --domain: ${domains.join(', ')}`);
  const why = limits.map(({ limit, refusal }) => `${limit.rule}: ${refusal}`);
  throw new CommandFailed(['nothing is proposed', ...why].join('\n'));
}
