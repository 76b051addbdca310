import { readFile, writeFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { present } from '../../base/group.ts';
import { printableJson } from '../../base/printable.ts';
import { count, counted } from '../../base/texts.ts';
import type { Surroundings } from '../../cli/surroundings.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { formatProblem } from '../../engine/rules/read/problem.ts';
import type { Settings } from '../../settings/settings.ts';
import { CommandFailed } from '../lab/commands/client.ts';
import { loadRulesAt, loadRulesText, loadSettings } from '../lab/commands/load-rules.ts';
import { DEFAULT_REORDER_MS, learnMapping, openAccessLogs } from './access-logs.ts';
import { ReplayEngine, replay } from './engine.ts';
import { type Figures, ReplayFigures } from './figures.ts';
import { type Input, openInput, orFail, STANDARD_INPUT, TrafficCounts } from './input.ts';
import { type Mapping, parseMapping } from './mapping/mapping.ts';
import { inOrder } from './order.ts';
import type { LogFormatName } from './readers/format-names.ts';
import { RecordingNotes } from './recording-notes.ts';
import { openRecordings } from './recordings.ts';
import { reportPage } from './report/page.ts';
import { ReportData } from './report/report-data.ts';
import { boundWarning, reportJson, reportText } from './report.ts';
import type { RecordedRequest, RecordedTraffic, ReplayedAnswer, ReplayObserver } from './request.ts';
import { exceeded, type Thresholds } from './thresholds.ts';

/** Options for answering traffic and reporting. */
export interface AnswerFlags extends Thresholds, Pick<TrafficFlags, 'mapping'> {
  /** Path of the rules. */
  readonly rules: string;
  /** Text of the rules, with which `rules` is only a name. */
  readonly rulesText?: string;
  readonly against?: string;
  readonly overlay: readonly string[];
  readonly json: boolean;
  readonly answers: boolean;
  /** File to write the report to as a page. */
  readonly html?: string;
  readonly verify: boolean;
}

/** Options for reading files. */
export interface TrafficFlags {
  /** Mapping of access log lines to requests; absent for recordings. */
  readonly mapping?: string;
  readonly format?: LogFormatName;
  /** Milliseconds. Default: that of the kind of input. */
  readonly reorder?: number;
}

/** Options of `weir replay`. */
interface ReplayFlags extends Omit<AnswerFlags, 'rules'>, TrafficFlags {
  /** Path of the rules; absent only with `learn`. */
  readonly rules?: string;
  readonly learn: boolean;
}

/**
 * Answers the traffic of files.
 *
 * @throws CommandFailed if a file cannot be read, rules or settings are invalid, or a threshold is exceeded
 */
export async function runReplay(
  files: readonly string[],
  flags: ReplayFlags,
  surroundings: Surroundings,
): Promise<void> {
  if (flags.json && flags.answers) throw new CommandFailed('--json and --answers cannot be used together');
  const inputs = await openInputs(files, surroundings.input);
  if (flags.learn) return learn(inputs, flags.format, surroundings.print);
  const { rules } = flags;
  if (rules === undefined) throw new CommandFailed('expected --rules, a rule file or directory, got none');
  await answerTraffic({ ...flags, rules }, surroundings, trafficOpener(inputs, flags));
}

/** @throws CommandFailed if there is no such file */
export const openInputs = (files: readonly string[], standardInput: Readable): Promise<readonly Input[]> =>
  Promise.all((files.length > 0 ? files : [STANDARD_INPUT]).map((file) => openInput(file, standardInput)));

/** Traffic to answer, and its names in the report. */
interface OpenedTraffic {
  readonly traffic: RecordedTraffic;
  readonly names: readonly string[];
  readonly totalBytes: number | undefined;
}

type TrafficOpener = (notes: RecordingNotes, counts: TrafficCounts) => Promise<OpenedTraffic>;

interface AnsweringOptions {
  readonly settings: Settings;
  /** The rules, and the others with which they are compared. */
  readonly trees: readonly RuleTree[];
  readonly observers: readonly ReplayObserver[];
  readonly showProgress: Surroundings['showProgress'];
  readonly onBatch?: () => Promise<void>;
}

/** Answers traffic by rules. @returns what the input was, with warnings about it */
export async function answerRequests(open: TrafficOpener, options: AnsweringOptions) {
  const { settings, trees, observers, showProgress, onBatch } = options;
  const { decisions, counters } = settings;
  const engines = trees.map((tree) => new ReplayEngine(tree, { ...decisions, memory: counters.memory }));
  const [rules, against] = engines as [ReplayEngine, ReplayEngine?]; // one for each tree
  const counts = new TrafficCounts();
  const notes = new RecordingNotes(settings, trees);
  const { traffic, names, totalBytes } = await open(notes, counts);
  const progress = showProgress && new Progress(totalBytes, showProgress);
  await replay(traffic, {
    rules,
    against,
    counts,
    observers: [...observers, notes],
    async onBatch() {
      progress?.show(counts);
      await onBatch?.();
    },
  });
  progress?.clear();
  return { counts, names, engines, warnings: [...counts.notes, ...notes.warnings()] };
}

/**
 * Answers traffic by rules, and prints the report.
 *
 * @throws CommandFailed    if rules or settings are invalid, or a threshold is exceeded
 */
export async function answerTraffic(
  flags: AnswerFlags,
  { env, write, print, showProgress }: Surroundings,
  open: TrafficOpener,
): Promise<void> {
  const settings = await loadSettings(env);
  const { rules, rulesText, against, overlay, html } = flags;
  const trees = await Promise.all([
    rulesText === undefined ? loadRulesAt(rules, overlay, settings) : loadRulesText(rules, rulesText),
    ...(against === undefined ? [] : [loadRulesAt(against, overlay, settings)]),
  ]);
  const figures = new ReplayFigures();
  const lines = flags.answers ? new AnswerLines() : undefined;
  const data = html === undefined ? undefined : new ReportData();
  const answered = await answerRequests(open, {
    settings,
    trees,
    showProgress,
    observers: present([figures, lines, data]),
    ...(lines && { onBatch: () => write(lines.take()) }),
  });
  const { counts, names: traffic, engines } = answered;
  const found = figures.result();
  const warnings = present([
    ...answered.warnings,
    evictionNote(engines),
    boundWarning(found),
    unreadNote(found, counts, flags),
  ]);
  const source = { figures: found, counts, warnings };
  if (!flags.answers) print(flags.json ? printableJson(reportJson(source)) : reportText(source));
  if (data && html !== undefined) {
    const page = reportPage({ ...source, data, names: { rules, against, traffic } });
    await orFail(html, () => writeFile(html, page));
  }
  const failures = present([...exceeded(found, flags), flags.verify && differences(found)]);
  if (failures.length > 0) throw new CommandFailed(failures.join('\n'));
}

/** Opens the requests of files, as access logs if there is a mapping and otherwise as recordings. */
export const trafficOpener =
  (inputs: readonly Input[], flags: TrafficFlags): TrafficOpener =>
  async (notes, counts) => ({
    traffic: await openTraffic(inputs, flags, notes, counts),
    names: inputs.map(({ name }) => name),
    totalBytes: inputs.reduce((sum, { bytes = Number.NaN }) => sum + bytes, 0), // NaN if one is unknown
  });

async function openTraffic(
  inputs: readonly Input[],
  { mapping: path, format, reorder }: TrafficFlags,
  notes: RecordingNotes,
  counts: TrafficCounts,
): Promise<RecordedTraffic> {
  if (path !== undefined) {
    const reorderMs = reorder ?? DEFAULT_REORDER_MS;
    return openAccessLogs(inputs, { mapping: await mappingAt(path), format, reorderMs }, counts);
  }
  if (format !== undefined)
    throw new CommandFailed('--format applies to access logs, which need --mapping: see --learn');
  const recorded = await openRecordings(inputs, notes, counts);
  return reorder === undefined ? recorded : inOrder(recorded, reorder, counts);
}

function evictionNote(engines: readonly ReplayEngine[]): string | undefined {
  const evicted = Math.max(...engines.map((engine) => engine.evicted));
  if (evicted === 0) return undefined;
  return `evicted ${counted(evicted, 'counter')}, as in a service: MEMORY_MAX_COUNTERS, MEMORY_MAX_BYTES`;
}

/** Detects an access log that was read as a recording, of which no line is a request. */
const unreadNote = ({ rules }: Figures, { broken }: TrafficCounts, { mapping }: AnswerFlags): string | false =>
  rules.requests === 0 &&
  broken > 0 &&
  mapping === undefined &&
  'no line is a recorded request; an access log needs --mapping, and weir replay --learn prints a draft';

function differences({ recorded }: Figures): string | undefined {
  if (!recorded) return 'no answers were recorded, so nothing can be verified';
  const differing = recorded.answers - recorded.same;
  return differing === 0 ? undefined : `${differing} of ${counted(recorded.answers, 'answer')} not as recorded`;
}

/** Writes one line for each request, with its answer under the last rule set. */
class AnswerLines implements ReplayObserver {
  #text = '';

  observe(_: RecordedRequest, answer: ReplayedAnswer, against: ReplayedAnswer = answer): void {
    const descriptors = against.descriptors.map(({ code, remaining = 0 }) => ({ code, remaining }));
    this.#text += `${JSON.stringify({ code: against.code, descriptors })}\n`;
  }

  /** Lines since the last call. */
  take(): string {
    const text = this.#text;
    this.#text = '';
    return text;
  }
}

/** @throws CommandFailed if the mapping cannot be read or is invalid */
export async function mappingAt(path: string): Promise<Mapping> {
  const parsed = parseMapping(path, await orFail(path, () => readFile(path, 'utf8')));
  if ('mapping' in parsed) return parsed.mapping;
  throw new CommandFailed(`invalid mapping:\n${parsed.problems.map(formatProblem).join('\n')}`);
}

/** Prints a first mapping for an access log. */
async function learn(
  inputs: readonly Input[],
  format: LogFormatName | undefined,
  print: (text: string) => void,
): Promise<void> {
  const [input, more] = inputs;
  if (!input || more) throw new CommandFailed(`--learn reads one log, got ${inputs.length}`);
  const text = await learnMapping(input, format);
  if (text === undefined) throw new CommandFailed(`${input.name}: no line has a known format: name it with --format`);
  print(text.trimEnd());
}

const PROGRESS_INTERVAL_MS = 100;
const BAR_CHARACTERS = 30;

/** Shows the progress of a replay on a terminal. */
class Progress {
  readonly #totalBytes: number | undefined;
  readonly #write: (text: string) => void;
  readonly #startedMs = performance.now();
  #shownMs = Number.NEGATIVE_INFINITY;

  /** @param totalBytes  undefined if unknown */
  constructor(totalBytes: number | undefined, write: (text: string) => void) {
    this.#totalBytes = totalBytes;
    this.#write = write;
  }

  show({ bytes, lines }: TrafficCounts): void {
    const nowMs = performance.now();
    if (nowMs - this.#shownMs < PROGRESS_INTERVAL_MS) return;
    this.#shownMs = nowMs;
    const perSecond = Math.round((lines * 1_000) / Math.max(nowMs - this.#startedMs, 1));
    this.#write(`\r\u001b[K${this.#bar(bytes)}${count(lines)} lines, ${count(perSecond)}/s`);
  }

  clear(): void {
    if (this.#shownMs !== Number.NEGATIVE_INFINITY) this.#write('\r\u001b[K');
  }

  #bar(bytes: number): string {
    if (!this.#totalBytes) return '';
    const part = Math.min(bytes / this.#totalBytes, 1);
    const full = Math.round(part * BAR_CHARACTERS);
    return `[${'='.repeat(full)}${' '.repeat(BAR_CHARACTERS - full)}] ${Math.floor(part * 100)} %  `;
  }
}
