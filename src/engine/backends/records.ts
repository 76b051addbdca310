/** The storage of operators' changes: lists and maps of texts. Every method may reject with `StoreUnavailable`. */
export interface Records {
  /** Adds a text to a list, which keeps the newest texts. */
  append(list: string, text: string, max: number): Promise<void>;
  /** The newest first. */
  latest(list: string, count: number): Promise<readonly string[]>;
  put(map: string, field: string, text: string): Promise<void>;
  /** Stores a text unless the field has one. @returns the text that it has then */
  putOnce(map: string, field: string, text: string): Promise<string>;
  remove(map: string, field: string): Promise<void>;
  all(map: string): Promise<ReadonlyMap<string, string>>;
  /** The store's clock, without which nothing that is shared may be deleted: that of this process may be wrong. */
  nowMs(): Promise<number>;
}

/** Removes fields whose time has come by the clock of the store: that of this process would remove them for all. */
export async function removeExpired(
  records: Records,
  map: string,
  untilMs: ReadonlyMap<string, number>,
): Promise<void> {
  if (untilMs.size === 0) return;
  const nowMs = await records.nowMs();
  for (const [field, atMs] of untilMs) if (atMs <= nowMs) await records.remove(map, field);
}

/** Records in this process: lost on restart. */
export function memoryRecords(): Records {
  const lists = new Map<string, string[]>();
  const maps = new Map<string, Map<string, string>>();
  const openMap = (name: string): Map<string, string> => {
    const known = maps.get(name) ?? new Map<string, string>();
    maps.set(name, known);
    return known;
  };
  return {
    async append(list, text, max) {
      lists.set(list, [text, ...(lists.get(list) ?? [])].slice(0, max));
    },
    latest: async (list, count) => (lists.get(list) ?? []).slice(0, count),
    async put(map, field, text) {
      openMap(map).set(field, text);
    },
    async putOnce(map, field, text) {
      const known = openMap(map).get(field) ?? text;
      openMap(map).set(field, known);
      return known;
    },
    async remove(map, field) {
      openMap(map).delete(field);
    },
    all: async (map) => new Map(openMap(map)),
    nowMs: async () => Number.POSITIVE_INFINITY, // nothing is shared: the clock of the process decides
  };
}
