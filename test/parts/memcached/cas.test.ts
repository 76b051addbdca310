import { type Item, type SwapStore, swap } from '../../../src/parts/memcached/cas.ts';
import { createMemcachedClient, type MemcachedClient } from '../../../src/parts/memcached/client.ts';
import { type Memcached, startMemcached } from '../../helpers/memcached.ts';
import { eventually } from '../../helpers/until.ts';

let server: Memcached;
let client: MemcachedClient;
beforeAll(async () => {
  server = await startMemcached();
  client = createMemcachedClient({
    host: '127.0.0.1',
    port: server.port,
    tls: undefined,
    monotonicMs: () => performance.now(),
    onReady: () => {},
    onError: () => {},
  });
  await eventually(() => client.health().ready);
});
afterAll(async () => {
  client.close();
  await server.stop();
});

/** A value in a variable, which another process changes before each of the first `others` swaps. */
function storeChangedBy(others: number): SwapStore & { readonly value: () => string | undefined } {
  let item: Item | undefined;
  let left = others;
  const put = (value: Buffer): 'STORED' => {
    item = { value, cas: String(Number(item?.cas ?? 0) + 1) };
    return 'STORED';
  };
  const interfere = (): void => {
    if (left-- > 0) put(Buffer.from(`${item?.value ?? ''}.`));
  };
  return {
    value: () => item?.value.toString(),
    get: async () => item,
    async cas(_, { value }, cas) {
      interfere();
      return item?.cas === cas ? put(value) : 'EXISTS';
    },
    async add(_, { value }) {
      interfere();
      return item ? 'NOT_STORED' : put(value);
    },
  };
}

const EXPTIME = 60;

/** Adds a word to a list of words in one value, without counters or limits. */
const addWord = (store: SwapStore, key: string, word: string): Promise<number> =>
  swap(store, key, (value) => {
    const words = value?.toString().split(' ') ?? [];
    if (words.includes(word)) return { result: words.length };
    return { result: words.length + 1, next: { value: Buffer.from([...words, word].join(' ')), exptime: EXPTIME } };
  });

test('a set of words in memcached loses none of many concurrent additions', async () => {
  const words = Array.from({ length: 30 }, (_, at) => `w${at}`);
  const sizes = await Promise.all(words.map((word) => addWord(client, 'words', word)));
  expect(sizes.toSorted((a, b) => a - b)).toEqual(words.map((_, at) => at + 1));
  expect(await addWord(client, 'words', 'w7')).toBe(30);
  expect((await client.get('words'))?.value.toString().split(' ').toSorted()).toEqual(words.toSorted());
});

test('a step is repeated with the new value if others change it meanwhile', async () => {
  const store = storeChangedBy(3);
  expect(await addWord(store, 'k', 'a')).toBe(2);
  expect(store.value()).toBe('... a');
});

test('an unchanged value is not stored', async () => {
  const store = storeChangedBy(0);
  expect(await swap(store, 'k', () => ({ result: 'peeked' }))).toBe('peeked');
  expect(store.value()).toBeUndefined();
});

test('an update fails if others change the value each time', async () => {
  await expect(addWord(storeChangedBy(Number.POSITIVE_INFINITY), 'k', 'a')).rejects.toThrow(
    'other writers changed the counter 100 times',
  );
});
