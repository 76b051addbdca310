import type { LogFormatName } from '../../lab/replay/readers/format-names.ts';

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
