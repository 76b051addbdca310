/** An overlay file: its name in messages, and its content. */
export interface OverlayFile {
  readonly name: string;
  readonly text: string;
}

/** A property that an overlay set on a rule or a domain, and its place in the overlay. */
export interface Overlaid {
  /** Index of the rule's limit that has it; absent for the rule itself, or the domain. */
  readonly limit?: number | undefined;
  readonly key: string;
  readonly file: string;
  readonly line?: number | undefined;
}

/** Rules and domains, which an overlay may change. */
export interface MayBeOverlaid {
  readonly overlaid?: readonly Overlaid[] | undefined;
}
