import { CallerMemory, type MemoryAccount } from '../../../src/h2/bounds/caller-memory.ts';
import fc from '../../helpers/property.ts';

const KIB = 1024;

test('the connection that holds most is reset when the sum exceeds the limit', () => {
  const memory = new CallerMemory(100 * KIB);
  const resets: string[] = [];
  const small = memory.open(4 * KIB, { reset: () => resets.push('small') });
  const large = memory.open(4 * KIB, { reset: () => resets.push('large') });
  large?.set(80 * KIB);
  small?.set(15 * KIB);
  expect(resets).toEqual([]);
  small?.set(30 * KIB);
  expect(resets).toEqual(['large']);
  expect(memory.bytes).toBe(30 * KIB);
  large?.set(50 * KIB); // its account is closed
  expect(memory.bytes).toBe(30 * KIB);
});

test('a connection that exceeds the limit alone is reset', () => {
  const memory = new CallerMemory(100 * KIB);
  let isReset = false;
  const account = memory.open(4 * KIB, {
    reset: () => {
      isReset = true;
    },
  });
  account?.set(101 * KIB);
  expect(isReset).toBe(true);
  expect(memory.bytes).toBe(0);
});

test('a new connection is refused when connections themselves take three quarters of the limit', () => {
  const memory = new CallerMemory(40 * KIB);
  const accounts = Array.from({ length: 7 }, () => memory.open(4 * KIB, { reset: () => {} }));
  expect(accounts).not.toContain(undefined);
  expect(memory.open(4 * KIB, { reset: () => {} })).toBeUndefined();
  accounts[3]?.close();
  expect(memory.open(4 * KIB, { reset: () => {} })).toBeDefined();
});

test('a client with requests is not reset while another opens connections as fast as it can', () => {
  const memory = new CallerMemory(1024 * KIB);
  let isReset = false;
  const honest = memory.open(4 * KIB, {
    reset: () => {
      isReset = true;
    },
  });
  for (let count = 0; count < 1_000; count++) memory.open(4 * KIB, { reset: () => {} });
  honest?.set(200 * KIB);
  expect(isReset).toBe(false);
});

test('a new connection is refused when others of the same size hold the rest', () => {
  const memory = new CallerMemory(40 * KIB);
  for (let count = 0; count < 5; count++) memory.open(4 * KIB, { reset: () => {} })?.set(7 * KIB);
  memory.open(4 * KIB, { reset: () => {} });
  expect(memory.open(4 * KIB, { reset: () => {} })).toBeUndefined();
});

test('a client with requests is reset, rather than a connection that holds more only because of its kind', () => {
  const memory = new CallerMemory(100 * KIB);
  const resets: string[] = [];
  const open = (name: string, bytes: number) => memory.open(bytes, { reset: () => resets.push(name) });
  const secure = open('secure', 40 * KIB);
  const busy = ['first', 'second'].map((name) => open(name, 16 * KIB));
  secure?.set(43 * KIB);
  for (const one of busy) one?.set(27 * KIB);
  busy[1]?.set(31 * KIB);
  expect(resets).toEqual(['first']);
});

test('a connection that holds much more is reset in favour of a new one', () => {
  const memory = new CallerMemory(40 * KIB);
  const resets: string[] = [];
  const large = memory.open(4 * KIB, { reset: () => resets.push('large') });
  large?.set(40 * KIB);
  expect(memory.open(4 * KIB, { reset: () => {} })).toBeDefined();
  expect(resets).toEqual(['large']);
});

test('a connection that holds little is not reset in favour of a new one, even if resetting others does not suffice', () => {
  const memory = new CallerMemory(100 * KIB);
  const resets: string[] = [];
  const open = (name: string) => memory.open(4 * KIB, { reset: () => resets.push(name) });
  for (let count = 0; count < 12; count++) open('small')?.set(7 * KIB);
  open('large')?.set(9 * KIB);
  expect(memory.open(20 * KIB, { reset: () => {} })).toBeUndefined();
  expect(resets).toEqual(['large']);
});

test('the one of several equal connections that has held its memory longest without interruption is reset', () => {
  const memory = new CallerMemory(100 * KIB);
  const resets: string[] = [];
  const open = (name: string) => memory.open(4 * KIB, { reset: () => resets.push(name) });
  const [honest, first, second] = [open('honest'), open('first'), open('second')];
  honest?.set(30 * KIB);
  first?.set(30 * KIB);
  second?.set(30 * KIB);
  honest?.set(4 * KIB); // its calls are answered,
  honest?.set(31 * KIB); // and others come
  open('fourth')?.set(20 * KIB);
  expect(resets).toEqual(['first']);
});

describe('a new connection beyond the limit', () => {
  /** Opens connections up to the limit. Each records that it was retired, unless it is busy. */
  function fill(memory: CallerMemory) {
    const retired: number[] = [];
    const busy = new Set<number>();
    const accounts: MemoryAccount[] = [];
    const open = (): boolean => {
      const at = accounts.length;
      const retire = (): boolean => {
        if (!busy.has(at)) retired.push(at);
        return !busy.has(at);
      };
      const account = memory.open(4 * KIB, { reset: () => {}, retire });
      if (account) accounts.push(account);
      return account !== undefined;
    };
    while (retired.length === 0 && open());
    return { accounts, busy, open, retired };
  }

  test('replaces the oldest connection without a request', () => {
    const memory = new CallerMemory(40 * KIB);
    const { open, retired } = fill(memory);
    open();
    expect(retired).toEqual([0, 1]);
    expect(memory.bytes).toBe(28 * KIB);
  });

  test('replaces old unused connections first, then the one idle longest, then a new one', () => {
    let nowMs = 0;
    const memory = new CallerMemory(40 * KIB, () => nowMs);
    const { accounts, open, retired } = fill(memory); // eight were opened, and the first is gone
    for (const at of [5, 3, 2, 1]) {
      accounts[at]?.markIdle(false);
      accounts[at]?.markIdle(true);
    }
    accounts[5]?.markIdle(true);
    open();
    expect(retired).toEqual([0, 5]);
    nowMs += 1_000;
    for (let count = 0; count < 4; count++) open();
    expect(retired).toEqual([0, 5, 4, 6, 7, 8]);
    for (const at of [9, 10, 11, 12]) accounts[at]?.markIdle(false);
    for (let count = 0; count < 4; count++) open();
    expect(retired).toEqual([0, 5, 4, 6, 7, 8, 3, 2, 1, 13]);
  });

  test('replaces the oldest unused connection, even a new one, when most are unused', () => {
    const memory = new CallerMemory(40 * KIB, () => 0);
    const { accounts, open, retired } = fill(memory);
    for (const at of [1, 2, 3, 4, 5]) {
      accounts[at]?.markIdle(false);
      accounts[at]?.markIdle(true);
    }
    for (let count = 0; count < 20; count++) open();
    expect(retired.slice(0, 5)).toEqual([0, 1, 2, 6, 7]);
    expect(retired).toHaveLength(21);
    for (const at of [3, 4, 5]) expect(retired).not.toContain(at);
  });

  test('does not replace a connection that was used since it was found idle', () => {
    const memory = new CallerMemory(40 * KIB);
    const { accounts, busy, open, retired } = fill(memory);
    for (const at of [1, 2]) {
      accounts[at]?.markIdle(true);
      busy.add(at);
    }
    open();
    expect(retired).toEqual([0, 3]);
    busy.delete(1);
    accounts[1]?.markIdle(true);
    accounts[4]?.close();
    for (const at of [5, 6]) accounts[at]?.markIdle(false);
    for (let count = 0; count < 6; count++) open();
    expect(retired).toEqual([0, 3, 1, 7, 8, 9, 10]);
  });

  test('replaces a connection that is from then on charged only for what it holds besides itself', () => {
    const memory = new CallerMemory(40 * KIB);
    const { accounts, open } = fill(memory);
    const [first] = accounts;
    first?.set((first.baseBytes ?? 0) + 3 * KIB);
    expect(memory.bytes).toBe(31 * KIB);
    first?.markIdle(true);
    open();
    expect(memory.bytes).toBe(31 * KIB);
    first?.close();
    expect(memory.bytes).toBe(28 * KIB);
  });

  test('replaces nothing when no connection is idle', () => {
    const memory = new CallerMemory(40 * KIB);
    const { accounts, open, retired } = fill(memory);
    for (const account of accounts) account.markIdle(false);
    expect(open()).toBe(false);
    expect(retired).toEqual([0]);
  });
});

describe('whatever connections do', () => {
  /** Memory of a connection with TLS, of which nine fit. */
  const BASE_BYTES = 80 * KIB;

  interface Held {
    account: MemoryAccount | undefined;
    /** Memory besides the connection itself. */
    bytes: number;
    isIdle: boolean;
  }

  const bytesOf = ({ account, bytes }: Held): number => (account?.baseBytes ?? 0) + bytes;

  test('memory never holds more than the limit, and resets nothing that holds less than half of the largest', () => {
    const step = fc.record({
      at: fc.nat(12),
      bytes: fc.integer({ min: 0, max: 400 * KIB }),
      what: fc.constantFrom('hold', 'hold', 'hold', 'close', 'use', 'rest'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const memory = new CallerMemory(1024 * KIB);
        const connections: (Held | undefined)[] = [];
        const held = new Set<Held>();
        const forget = (one: Held): void => {
          held.delete(one);
          if (connections.includes(one)) connections[connections.indexOf(one)] = undefined;
        };
        const reset = (one: Held): void => {
          const largest = Math.max(...[...held].map(({ bytes }) => bytes));
          expect(Math.max(one.bytes * 2, 4 * KIB)).toBeGreaterThanOrEqual(largest);
          forget(one);
        };
        const open = (at: number): void => {
          const one: Held = { account: undefined, bytes: 0, isIdle: true };
          one.account = memory.open(BASE_BYTES, { reset: () => reset(one), retire: () => one.isIdle });
          if (!one.account) return;
          connections[at] = one;
          held.add(one);
        };
        for (const { at, bytes, what } of steps) {
          const one = connections[at];
          if (!one?.account) open(at);
          else if (what === 'close') {
            forget(one);
            one.account.close();
          } else if (what === 'hold') {
            one.bytes = bytes;
            one.account.set(bytesOf(one));
          } else {
            one.isIdle = what === 'rest';
            one.account.markIdle(one.isIdle);
          }
          expect(memory.bytes).toBeLessThanOrEqual(memory.maxBytes);
          expect(memory.bytes).toBe([...held].reduce((sum, each) => sum + bytesOf(each), 0));
          expect(memory.connections).toBe(held.size);
        }
      }),
    );
  });
});
