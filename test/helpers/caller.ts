import { RequestWork } from '../../src/base/request-work.ts';
import type { Caller } from '../../src/edge/rls/service.ts';

/** A caller that waits for `timeoutMs` and sends these headers. */
export const callerWith = (
  timeoutMs = Number.POSITIVE_INFINITY,
  headers: Readonly<Record<string, string>> = {},
): Caller => ({ timeoutMs, header: (name) => headers[name], work: new RequestWork() });
