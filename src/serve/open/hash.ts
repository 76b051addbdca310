import { randomBytes } from 'node:crypto';
import { every } from '../../base/clock.ts';
import { type Hash, hashValue } from '../../base/hashed.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Part } from '../parts/start-up.ts';

/** The hashes of callers' values. */
interface OpenHash extends Part {
  /** Undefined: values are shown unchanged. */
  readonly hash: Hash | undefined;
  /** Takes the key of all instances; if the store cannot be reached, that is repeated until it can. */
  share(): Promise<void>;
}

const MAP = 'hash-key';
const FIELD = 'key';
const KEY_BYTES = 32;
const RETRY_INTERVAL_MS = 1_000;

const off: OpenHash = { hash: undefined, share: async () => {}, close: () => {} };

/**
 * @param records  of all instances, which then have the first key that one of them generated; undefined: each process
 *   has its own
 */
export function openHash({ hashKeys, hashKey }: Settings['admin'], records: Records | undefined): OpenHash {
  if (!hashKeys) return off;
  let key = hashKey ?? randomBytes(KEY_BYTES).toString('base64url');
  const hash: Hash = (value) => hashValue(value, key);
  if (hashKey !== undefined || !records) return { ...off, hash };
  const share = async (): Promise<void> => {
    try {
      key = await records.putOnce(MAP, FIELD, key);
      stop();
    } catch {} // the store cannot be reached: values have hashes of this process alone
  };
  const stop = every(RETRY_INTERVAL_MS, () => void share());
  return { ...off, hash, share, close: stop };
}
