import type { Readable } from 'node:stream';
import type { LogFormatName } from '../../lab/replay/readers/format-names.ts';
import type { Thresholds } from '../../lab/replay/thresholds.ts';
import type { ScenarioName } from '../../lab/simulate/scenario-names.ts';
import type { Surroundings } from './admin.ts';

/** Further parts of the process, for commands that read traffic. */
export interface ReplaySurroundings extends Surroundings {
  readonly input: Readable;
  /** Writes to standard output; resolves when there is room for more. */
  readonly write: (text: string) => Promise<void>;
  /** Writes to standard error; undefined: it is not a terminal. */
  readonly showProgress: ((text: string) => void) | undefined;
}

/** Options for answering traffic and reporting. */
export interface AnswerFlags extends Thresholds {
  /** A path. */
  readonly rules: string;
  /** The text of the rules; `rules` is then only a name. */
  readonly rulesText?: string;
  readonly against?: string;
  readonly overlay: readonly string[];
  /** A mapping of access log lines to requests; absent: the input is recordings. */
  readonly mapping?: string;
  readonly json: boolean;
  readonly answers: boolean;
  /** The file to write the report to as a page. */
  readonly html?: string;
  readonly verify: boolean;
}

export interface ReplayFlags extends Omit<AnswerFlags, 'rules'> {
  /** Absent: only with `learn`. */
  readonly rules?: string;
  readonly format?: LogFormatName;
  readonly learn: boolean;
  /** Milliseconds; absent: the default for the kind of input. */
  readonly reorder?: number;
}

export interface SimulateFlags {
  readonly scenario: ScenarioName;
  readonly rules?: string;
  readonly against?: string;
  readonly seed: number;
  readonly mapping?: string;
  readonly json: boolean;
  readonly html?: string;
  readonly out?: string;
}

export interface AdviseFlags {
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
