import { AnswerLines } from '../replay/answers.ts';
import { ReplayEngine } from '../replay/engine.ts';
import { ReplayFigures } from '../replay/figures.ts';
import { HashedValues } from '../replay/hashed-values.ts';
import { inputAt, STANDARD_INPUT } from '../replay/input.ts';
import { inOrder } from '../replay/order.ts';
import { Progress } from '../replay/progress.ts';
import { RecordingNotes } from '../replay/recording-notes.ts';
import { openRecordings } from '../replay/recordings.ts';
import { replay } from '../replay/replay.ts';
import { reportJson, reportText } from '../replay/report.ts';
import { exceeded } from '../replay/thresholds.ts';
import { TrafficCounts } from '../replay/traffic.ts';
import { InvalidSettings } from '../settings/values.ts';
import { readSettings, type Settings } from '../settings.ts';
import { CommandFailed } from './client.ts';
import { loadRulesAt } from './load-rules.ts';
import type { ReplayFlags, ReplaySurroundings } from './replay-flags.ts';

/**
 * @throws CommandFailed    wrong rules or settings, or a threshold is exceeded
 * @throws UnreadableInput
 */
export async function runReplay(
  files: readonly string[],
  flags: ReplayFlags,
  { env, input, write, print, showProgress }: ReplaySurroundings,
): Promise<void> {
  if (flags.json && flags.answers) throw new CommandFailed('give one of --json and --answers, got both');
  const settings = await settingsOf(env);
  const trees = await Promise.all(
    [flags.rules, ...(flags.against === undefined ? [] : [flags.against])].map((path) =>
      loadRulesAt(path, flags.overlay, settings),
    ),
  );
  const engines = trees.map((tree) => new ReplayEngine(tree, engineOptionsOf(settings)));
  const [rules, against] = engines;
  if (!rules) return; // there is one
  const counts = new TrafficCounts();
  const figures = new ReplayFigures();
  const hashed = new HashedValues(trees);
  const notes = new RecordingNotes(settings, hashed);
  const inputs = await Promise.all((files.length > 0 ? files : [STANDARD_INPUT]).map((file) => inputAt(file, input)));
  const recorded = await openRecordings(inputs, notes, counts);
  const traffic = flags.reorder === undefined ? recorded : inOrder(recorded, flags.reorder, counts);
  const lines = flags.answers ? new AnswerLines() : undefined;
  const progress = showProgress && new Progress(totalOf(inputs), showProgress, () => performance.now());
  await replay(traffic, {
    ...{ rules, against, counts },
    observers: [figures, hashed, ...(lines ? [lines] : [])],
    async onBatch() {
      progress?.show(counts.bytes, counts.lines);
      if (lines) await write(lines.take());
    },
  });
  progress?.clear();
  const found = figures.result();
  const warnings = [...counts.notes, ...notes.warnings(), ...evictionsOf(engines)];
  const source = { figures: found, counts, warnings };
  if (!flags.answers) print(flags.json ? JSON.stringify(reportJson(source), undefined, 2) : reportText(source));
  const failures = [...exceeded(found, flags), ...(flags.verify ? differences(found) : [])];
  if (failures.length > 0) throw new CommandFailed(failures.join('\n'));
}

async function settingsOf(env: ReplaySurroundings['env']): Promise<Settings> {
  try {
    return await readSettings(env);
  } catch (error) {
    throw error instanceof InvalidSettings ? new CommandFailed(error.message) : error;
  }
}

const engineOptionsOf = ({ decisions: { shadowMode, quotaMode, spend }, counters: { memory } }: Settings) => ({
  ...{ shadowMode, quotaMode, spend, memory },
});

function totalOf(inputs: readonly { readonly bytes: number | undefined }[]): number | undefined {
  let total = 0;
  for (const { bytes } of inputs) {
    if (bytes === undefined) return undefined;
    total += bytes;
  }
  return total;
}

function evictionsOf(engines: readonly ReplayEngine[]): readonly string[] {
  const evicted = Math.max(...engines.map((engine) => engine.evicted));
  return evicted === 0
    ? []
    : [
        `${evicted} counters were forgotten for want of room, as a service would: MEMORY_MAX_COUNTERS, MEMORY_MAX_BYTES`,
      ];
}

function differences({ recorded }: ReturnType<ReplayFigures['result']>): readonly string[] {
  if (!recorded) return ['no answers were recorded: nothing can be verified'];
  const count = recorded.answers - recorded.same;
  return count === 0 ? [] : [`${count} of ${recorded.answers} answers differ from what was recorded`];
}
