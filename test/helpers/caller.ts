import type { Caller } from '../../src/rls/service.ts';

/** A caller that waits so long, and sends these headers. */
export const callerWith = (
  timeoutMs = Number.POSITIVE_INFINITY,
  headers: Readonly<Record<string, string>> = {},
): Caller => ({ timeoutMs, header: (name) => headers[name] });
