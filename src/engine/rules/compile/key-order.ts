import type { KeyOrder } from '../match/tree.ts';

/** Finds one order of keys in which each comes after those above it in the rules. */
export class KeyOrderBuilder {
  readonly #above = new Map<string, Set<string>>();

  /** @param above  the key of the node directly above; undefined for those of the first level */
  add(key: string, above: string | undefined): void {
    const known = this.#above.get(key) ?? new Set();
    this.#above.set(key, known);
    if (above !== undefined && above !== key) known.add(above); // entries with the same key stay as they are sent
  }

  /** The order, or two keys each of which is above the other one somewhere. */
  build(): { readonly order: KeyOrder } | { readonly conflict: readonly [string, string] } {
    const order = new Map<string, number>();
    const open = new Set<string>();
    let conflict: readonly [string, string] | undefined;
    const place = (key: string): void => {
      open.add(key);
      for (const above of this.#above.get(key) ?? []) {
        if (open.has(above)) conflict ??= [above, key];
        else if (!order.has(above)) place(above);
      }
      open.delete(key);
      order.set(key, order.size);
    };
    for (const key of this.#above.keys()) if (!order.has(key)) place(key);
    return conflict ? { conflict } : { order };
  }
}
