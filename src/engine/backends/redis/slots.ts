import slotOf from 'cluster-key-slot';

/** Makes keys on the node of a counter, with the counters' prefix, since the operator may only allow keys with it. */
export interface SlotKeys {
  readonly slotOf: (key: string) => number;
  /** @param slot  undefined: one node has all slots */
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
