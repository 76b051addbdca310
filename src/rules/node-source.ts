import type { Block } from './read.ts';

/** The nodes of one level, in the order of the file. Those below a node must be taken before the next node. */
export interface NodeSource {
  /** Undefined: there are no more. */
  next(): SourcedNode | undefined;
}

export interface SourcedNode {
  readonly block: Block<'node'>;
  /** Undefined: there are none. */
  readonly below: NodeSource | undefined;
}

/** The nodes of blocks that are in memory. */
export function nodesOf(blocks: readonly Block<'node'>[]): NodeSource {
  let at = 0;
  return {
    next() {
      const block = blocks[at++];
      if (!block) return undefined;
      const { descriptors = [] } = block.values;
      return { block, below: descriptors.length > 0 ? nodesOf(descriptors) : undefined };
    },
  };
}
