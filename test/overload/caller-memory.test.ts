import { CallerMemory, type MemoryAccount } from '../../src/overload/caller-memory.ts';
import fc from '../helpers/property.ts';

const KIB = 1024;

test('resets the connection that holds most when the sum exceeds the limit', () => {
  const memory = new CallerMemory(100 * KIB);
  const resets: string[] = [];
  const small = memory.open(4 * KIB, () => resets.push('small'));
  const large = memory.open(4 * KIB, () => resets.push('large'));
  large?.set(80 * KIB);
  small?.set(15 * KIB);
  expect(resets).toEqual([]);
  small?.set(30 * KIB);
  expect(resets).toEqual(['large']);
  expect(memory.bytes).toBe(30 * KIB);
  large?.set(50 * KIB); // its account is closed
  expect(memory.bytes).toBe(30 * KIB);
});

test('resets a connection that exceeds the limit alone', () => {
  const memory = new CallerMemory(100 * KIB);
  let isReset = false;
  const account = memory.open(4 * KIB, () => {
    isReset = true;
  });
  account?.set(101 * KIB);
  expect(isReset).toBe(true);
  expect(memory.bytes).toBe(0);
});

test('refuses a new connection when connections themselves take three quarters of the limit', () => {
  const memory = new CallerMemory(40 * KIB);
  const accounts = Array.from({ length: 7 }, () => memory.open(4 * KIB, () => {}));
  expect(accounts).not.toContain(undefined);
  expect(memory.open(4 * KIB, () => {})).toBeUndefined();
  accounts[3]?.close();
  expect(memory.open(4 * KIB, () => {})).toBeDefined();
});

test('does not reset a client with requests while another opens as many connections as it can', () => {
  const memory = new CallerMemory(1024 * KIB);
  let isReset = false;
  const honest = memory.open(4 * KIB, () => {
    isReset = true;
  });
  for (let count = 0; count < 1_000; count++) memory.open(4 * KIB, () => {});
  honest?.set(200 * KIB);
  expect(isReset).toBe(false);
});

test('refuses a new connection when others of the same size hold the rest', () => {
  const memory = new CallerMemory(40 * KIB);
  for (let count = 0; count < 5; count++) memory.open(4 * KIB, () => {})?.set(7 * KIB);
  memory.open(4 * KIB, () => {});
  expect(memory.open(4 * KIB, () => {})).toBeUndefined();
});

test('resets a client with requests, and no connection that holds more only because it is of a larger kind', () => {
  const memory = new CallerMemory(100 * KIB);
  const resets: string[] = [];
  const open = (name: string, bytes: number) => memory.open(bytes, () => resets.push(name));
  const secure = open('secure', 40 * KIB);
  const busy = ['first', 'second'].map((name) => open(name, 16 * KIB));
  secure?.set(43 * KIB);
  for (const one of busy) one?.set(27 * KIB);
  busy[1]?.set(31 * KIB);
  expect(resets).toEqual(['first']);
});

test('makes room for a new connection if another holds much more', () => {
  const memory = new CallerMemory(40 * KIB);
  const resets: string[] = [];
  const large = memory.open(4 * KIB, () => resets.push('large'));
  large?.set(40 * KIB);
  expect(memory.open(4 * KIB, () => {})).toBeDefined();
  expect(resets).toEqual(['large']);
});

test('resets the one of several equal connections that has held its memory longest without a break', () => {
  const memory = new CallerMemory(100 * KIB);
  const resets: string[] = [];
  const open = (name: string) => memory.open(4 * KIB, () => resets.push(name));
  const [honest, first, second] = [open('honest'), open('first'), open('second')];
  honest?.set(30 * KIB);
  first?.set(30 * KIB);
  second?.set(30 * KIB);
  honest?.set(4 * KIB); // its calls are answered,
  honest?.set(31 * KIB); // and others come
  open('fourth')?.set(20 * KIB);
  expect(resets).toEqual(['first']);
});

test('never holds more than the limit, and resets nothing that holds less than half of the largest', () => {
  const step = fc.record({ at: fc.nat(9), bytes: fc.integer({ min: 0, max: 400 * KIB }), close: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const memory = new CallerMemory(1024 * KIB);
      const held = new Map<MemoryAccount, number>();
      const accounts: (MemoryAccount | undefined)[] = [];
      const open = (at: number): void => {
        const account = memory.open(4 * KIB, () => {
          const largest = Math.max(...held.values());
          const own = accounts[at] ? (held.get(accounts[at]) ?? 0) : 0;
          expect(own * 2).toBeGreaterThanOrEqual(Math.min(largest, own * 2 + 8 * KIB));
          if (accounts[at]) held.delete(accounts[at]);
          accounts[at] = undefined;
        });
        accounts[at] = account;
        if (account) held.set(account, 4 * KIB);
      };
      for (const { at, bytes, close } of steps) {
        const account = accounts[at];
        if (!account) open(at);
        else if (close) {
          held.delete(account);
          account.close();
          accounts[at] = undefined;
        } else {
          held.set(account, bytes);
          account.set(bytes);
        }
        expect(memory.bytes).toBeLessThanOrEqual(memory.maxBytes);
        expect(memory.bytes).toBe([...held.values()].reduce((sum, one) => sum + one, 0));
      }
    }),
  );
});
