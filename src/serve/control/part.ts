import type { Route } from '../../edge/http/server.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import type { ApiOperation } from '../../operate/admin/api.ts';
import type { AdminOptions, KnownFinding } from '../../operate/admin/options.ts';
import type { View } from '../../operate/admin/scope.ts';
import type { Statistics } from '../../operate/observe/stats.ts';
import type { InstanceFacts } from '../../operate/observe/table.ts';
import type { Gatherer } from '../../operate/status/gatherer.ts';
import type { HistorySource } from '../../operate/status/history.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { Part } from '../parts/start-up.ts';

/** What an optional capability adds for operators. */
export interface OperatorPart extends Partial<Part> {
  readonly operations?: readonly ApiOperation[];
  /** Pages of the debug port besides the operations. */
  readonly pages?: ReadonlyMap<string, Route>;
  /** What metrics show of it. */
  readonly facts?: () => Promise<Partial<InstanceFacts>>;
  /** What needs attention. */
  readonly findings?: () => readonly KnownFinding[];
  /** What the series in memory do not reach back to. */
  readonly history?: HistorySource;
  /** The path of the rule that refused most in the last minute. */
  readonly refusing?: (isFor: View) => string | undefined;
  /** Records the duration of a gRPC call. */
  readonly onCallFinished?: (method: string, elapsedMs: number) => void;
}

export interface OperatorContext extends ProcessContext {
  /** What operators have changed, in the store of all instances if it can keep that. */
  readonly records: Records;
  /** The records are in this process alone. */
  readonly hasOwnRecords: boolean;
  /** Overrides that the deciders follow, if any. */
  readonly overrides: readonly StandingOverride[] | undefined;
  /** The capabilities that are open; all of them when operations are called. */
  readonly opened: ReadonlyMap<string, OperatorPart>;
  /** What the service did, and when it is gathered. */
  readonly gathered: Gatherer;
  /** What capabilities have kept in control processes before this one, by their names. */
  readonly kept: ReadonlyMap<string, unknown>;
  /** Keeps a value of a capability for the next control process. */
  readonly keep: (part: string, value: unknown) => void;
  /** The part of the statistics that earlier processes have sent to where they are kept. */
  readonly earlier: Statistics;
}

export type OpenOperatorPart = (
  options: AdminOptions,
  settings: Settings,
  context: OperatorContext,
) => OperatorPart | Promise<OperatorPart>;
