/** A part of the service that must be closed. */
export interface Part {
  close(): void | Promise<void>;
}

/** Parts in order of opening. */
export interface Parts {
  /** Returns the part. */
  readonly add: <P extends Part>(part: P) => P;
  /** Closes all parts once, in reverse order. */
  readonly close: () => Promise<void>;
}

export function createParts(): Parts {
  const parts: Part[] = [];
  return {
    add(part) {
      parts.push(part);
      return part;
    },
    async close() {
      for (const part of parts.splice(0).reverse()) await part.close();
    },
  };
}
