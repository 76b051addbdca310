import { randomBytes } from 'node:crypto';
import { every } from '../../base/clock.ts';
import { type Hash, hashValue } from '../../base/hashed.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Part } from './start-up.ts';

/** The hashes of callers' values. */
interface OpenHash extends Part {
  /** Hashes values; undefined if they are shown unchanged. */
  readonly hash: Hash | undefined;
  /** Uses the records of all instances, which then have the first key that one of them generated. */
  shareIn(records: Records): void;
  /** Takes the key of all instances; if the store cannot be reached, that is repeated until it can. */
  share(): Promise<void>;
}

const MAP = 'hash-key';
const FIELD = 'key';
const KEY_BYTES = 32;
const RETRY_INTERVAL_MS = 1_000;

const off: OpenHash = { hash: undefined, shareIn: () => {}, share: async () => {}, close: () => {} };

/** Opens the hashes of this process. */
export function openHash({ hashKeys, hashKey }: Settings['admin']): OpenHash {
  if (!hashKeys) return off;
  let key = hashKey ?? randomBytes(KEY_BYTES).toString('base64url');
  const hash: Hash = (value) => hashValue(value, key);
  if (hashKey !== undefined) return { ...off, hash };
  let shared: Records | undefined;
  let stop = (): void => {};
  const share = async (): Promise<void> => {
    if (!shared) return;
    try {
      key = await shared.putOnce(MAP, FIELD, key);
      stop();
    } catch {} // the store cannot be reached: values have hashes of this process alone
  };
  return {
    hash,
    share,
    shareIn(records) {
      shared = records;
      stop = every(RETRY_INTERVAL_MS, () => void share());
    },
    close: () => stop(),
  };
}
