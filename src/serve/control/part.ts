import type { Records } from '../../engine/backends/records.ts';
import type { ApiOperation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import type { Explanation } from '../../operate/answers/explain.ts';
import type { InstanceFacts } from '../../operate/observe/table.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { Part } from '../parts/start-up.ts';

/** What an optional capability adds for operators. */
export interface OperatorPart extends Partial<Part> {
  readonly operations: readonly ApiOperation[];
  /** Adds to the explanation of a request. */
  readonly explained?: (explanation: Explanation, domain: string) => Promise<Explanation>;
  /** What metrics show of it. */
  readonly facts?: () => Promise<Partial<InstanceFacts>>;
}

interface OperatorContext extends ProcessContext {
  /** What operators have changed, in the store of all instances if it can keep that. */
  readonly records: Records;
}

export type OpenOperatorPart = (
  options: AdminOptions,
  settings: Settings,
  context: OperatorContext,
) => OperatorPart | Promise<OperatorPart>;
