import { formatLine } from './problem.ts';

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

/** One text for each property, for logs: `demo.user: burst comes from overlay.yaml:7`. */
export function* listOverlaid(rules: Iterable<MayBeOverlaid & { readonly path: string }>): Iterable<string> {
  for (const { path, overlaid = [] } of rules) {
    for (const { limit, key, file, line } of overlaid) {
      const which = limit === undefined || limit === 0 ? key : `${key} of limit ${limit + 1}`;
      yield `${path}: ${which} comes from ${formatLine({ file, line })}`;
    }
  }
}
