import slotOf from 'cluster-key-slot';

/**
 * Makes keys that live on the node of a counter, under the same prefix as the counters: an operator may have allowed no
 * others.
 */
export interface SlotKeys {
  readonly slotOf: (key: string) => number;
  /** @param slot  undefined: one node has them all */
  name(slot: number | undefined, name: string): string;
}

export function createSlotKeys(prefix: string): SlotKeys {
  const tags = new Map<number, string>();
  const tagOf = (slot: number): string => {
    let tag = tags.get(slot);
    for (let number = 0; tag === undefined; number++) if (slotOf(`${prefix}{${number}}`) === slot) tag = `{${number}}`;
    tags.set(slot, tag);
    return tag;
  };
  return { slotOf, name: (slot, name) => `${prefix}${slot === undefined ? '' : tagOf(slot)}${name}` };
}
