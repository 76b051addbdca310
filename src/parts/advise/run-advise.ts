import { present } from '../../base/group.ts';
import { printableJson, printableLines } from '../../base/printable.ts';
import { counted } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import { CommandFailed, callApi, type Target } from '../lab/commands/client.ts';
import { forTerminal } from '../lab/commands/for-terminal.ts';
import { loadRulesAt, loadSettings } from '../lab/commands/load-rules.ts';
import type { TrafficCounts } from '../replay/input.ts';
import { readableKey } from '../replay/report.ts';
import { answerRequests, openInputs, type TrafficFlags, trafficOpener } from '../replay/run-replay.ts';
import type { Advice } from './answers.ts';
import { DEFAULT_MAX_KEYS_HIT } from './propose.ts';
import { adviceText, hasProposal, overlayText } from './render-advice.ts';
import { RuleSketches } from './rule-sketches.ts';

/** Options of `weir advise`. */
interface AdviseFlags extends Target, TrafficFlags {
  /** Path of the rules; absent only with `live`. */
  readonly rules?: string;
  readonly overlay: readonly string[];
  /** Advise on the traffic of the service at `target`. */
  readonly live: boolean;
  readonly domain?: string;
  readonly rule?: string;
  /** A fraction between 0 and 1. */
  readonly maxKeysHit?: number;
  readonly json: boolean;
  readonly yaml: boolean;
}

/** Bounds of sketches: about 1,000 bytes per tracked key and 400 for its hits around boundaries, at most 140 MB. */
const BOUNDS = { keys: 100_000, keysOfRule: 20_000, admittedKeys: 100_000 };

/** Fixed seed, so that the same input leads to the same samples of keys. */
const SEED = 1;

/**
 * Prints advice on the limits of rules.
 *
 * @throws CommandFailed if flags, rules, files or settings are invalid, or there is nothing to print as YAML
 */
export async function runAdvise(
  files: readonly string[],
  flags: AdviseFlags,
  surroundings: Surroundings,
): Promise<void> {
  if (flags.json && flags.yaml) throw new CommandFailed('--json and --yaml cannot be used together');
  const advised = await (flags.live ? adviceOfService(files, flags) : adviceOnFiles(files, flags, surroundings));
  surroundings.print(
    flags.json
      ? printableJson(advised)
      : flags.yaml
        ? printableLines(overlayOutput(advised))
        : adviceOutput(forTerminal(advised)),
  );
}

async function adviceOnFiles(
  files: readonly string[],
  flags: AdviseFlags,
  { env, input, showProgress }: Surroundings,
): Promise<Advice> {
  const { rules: path, overlay, maxKeysHit = DEFAULT_MAX_KEYS_HIT } = flags;
  if (path === undefined) throw new CommandFailed('expected --rules, a rule file or directory, or --live; got none');
  const settings = await loadSettings(env);
  const tree = await loadRulesAt(path, overlay, settings);
  const sketches = new RuleSketches(BOUNDS, SEED);
  sketches.follow(tree);
  const open = trafficOpener(await openInputs(files, input), flags);
  const { counts, warnings } = await answerRequests(open, {
    settings,
    trees: [tree],
    observers: [sketches],
    showProgress,
  });
  return {
    limits: [...sketches.advice({ maxKeysHit, shownKey: readableKey }, flags)],
    skipped: sketches.skipped(flags),
    warnings: [...warnings, ...unusedInput(counts, flags)],
  };
}

function unusedInput(
  { broken, examples, late, unmapped }: TrafficCounts,
  { mapping }: Pick<AdviseFlags, 'mapping'>,
): readonly string[] {
  const hint = mapping === undefined ? ' (an access log needs --mapping)' : '';
  return present([
    broken > 0 && `skipped ${counted(broken, 'broken line')}${hint}: ${examples.join('; ')}`,
    late > 0 && `${counted(late, 'request')} too far out of order to be sorted (--reorder)`,
    unmapped > 0 && `${counted(unmapped, 'request')} without a descriptor from the mapping`,
  ]);
}

async function adviceOfService(files: readonly string[], flags: AdviseFlags): Promise<Advice> {
  const { domain, rule, maxKeysHit, rules, mapping } = flags;
  if (files.length > 0 || rules !== undefined || mapping !== undefined)
    throw new CommandFailed(
      '--live uses the rules and the traffic of the service: remove files, --rules and --mapping',
    );
  const keysHitPerMillion = maxKeysHit === undefined ? undefined : Math.max(Math.round(maxKeysHit * 1e6), 1);
  const query = { domain, rule, keysHitPerMillion };
  return callApi(flags, { operation: 'GET /api/v1/advice', query });
}

const adviceOutput = ({ warnings, ...advice }: Advice): string =>
  [adviceText(advice), ...warnings.map((text) => `warning: ${text}`)].join('\n\n');

/** @throws CommandFailed if there are no proposals, or proposals for several domains, as an overlay has one */
function overlayOutput({ limits }: Advice): string {
  const proposed = limits.filter(hasProposal);
  const domains = [...new Set(proposed.map(({ limit }) => limit.domain))];
  if (domains.length === 1) return overlayText(proposed).trimEnd();
  if (domains.length > 1)
    throw new CommandFailed(`an overlay has one domain: choose one of ${domains.join(', ')} with --domain`);
  const why = limits.map(({ limit, refusal }) => `${limit.rule}: ${refusal}`);
  throw new CommandFailed(['nothing is proposed', ...why].join('\n'));
}
