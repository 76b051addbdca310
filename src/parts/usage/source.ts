import type { UsageSource } from '../../engine/backends/usage.ts';
import { type MethodCall, runCall } from '../../operate/admin/remote-records.ts';
import type { OpenDeciderPart } from '../../serve/decider/part.ts';

/** Lets the process that keeps usage take it from the store of this process. */
export const openUsageSource: OpenDeciderPart = ({ core: { store } }) => ({
  /** @returns what each source has returned */
  asked: (call: MethodCall<UsageSource>): Promise<readonly unknown[]> =>
    Promise.all((store.usage ?? []).map((source) => runCall(source, call))),
});
