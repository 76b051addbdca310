/** Something that was opened and must be closed. */
export interface Part {
  close(): void | Promise<void>;
}

/** Parts in the order in which they were opened. */
export interface Parts {
  /** Returns the part. */
  readonly add: <P extends Part>(part: P) => P;
  /** Closes all, in reverse, each once. */
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
