import { CallerMemory, type MemoryAccount } from '../../src/h2/bounds/caller-memory.ts';

/** Records what its servers' checks have found, of each connection in the order in which they were accepted. */
export class WatchedMemory extends CallerMemory {
  /** Whether the last check has found it idle. */
  readonly idle: boolean[] = [];
  readonly checks: number[] = [];

  override open(...connection: Parameters<CallerMemory['open']>): MemoryAccount | undefined {
    const account = super.open(...connection);
    if (!account) return undefined;
    const at = this.idle.push(false) - 1;
    const markIdle = account.markIdle.bind(account);
    this.checks.push(0);
    account.markIdle = (isIdle) => {
      this.checks[at] = (this.checks[at] ?? 0) + 1;
      markIdle(isIdle);
      this.idle[at] = isIdle;
    };
    return account;
  }
}
