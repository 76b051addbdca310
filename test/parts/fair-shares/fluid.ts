/** A child in a fluid model: rates per second instead of single hits. */
export interface FluidChild {
  readonly reserve: number;
  readonly weight: number;
  /** Infinity for none. */
  readonly ceiling: number;
  /** What it asks for, if it has no children. */
  readonly demand: number;
  readonly children: readonly FluidChild[];
}

/** What a child would use if it could: at most what its children ask for. */
function wanted({ demand, ceiling, children }: FluidChild): number {
  const asked = children.length === 0 ? demand : children.reduce((sum, child) => sum + wanted(child), 0);
  return Math.min(asked, ceiling);
}

/**
 * The rates of the leaves, in order, by progressive filling: each child first gets its reservation, as far as it wants
 * it; then all rise together, each by its weight, and stop when they have what they want or the parent has no more.
 */
export function fluidRates(rate: number, children: readonly FluidChild[]): readonly number[] {
  const rates = children.map((child) => Math.min(wanted(child), child.reserve));
  for (;;) {
    const left = rate - rates.reduce((sum, one) => sum + one, 0);
    const rising = children.flatMap((child, at) => (wanted(child) - (rates[at] ?? 0) > 1e-9 ? [{ child, at }] : []));
    if (left <= 1e-9 || rising.length === 0) break;
    const weights = rising.reduce((sum, { child }) => sum + child.weight, 0);
    const rise = Math.min(
      left / weights,
      ...rising.map(({ child, at }) => (wanted(child) - (rates[at] ?? 0)) / child.weight),
    );
    for (const { child, at } of rising) rates[at] = (rates[at] ?? 0) + rise * child.weight;
  }
  return children.flatMap((child, at) =>
    child.children.length === 0 ? [rates[at] ?? 0] : fluidRates(rates[at] ?? 0, child.children),
  );
}

/** Jain's index of fairness: 1 if all are equal, 1/n if one has everything. */
export function jainIndex(values: readonly number[]): number {
  const sum = values.reduce((total, one) => total + one, 0);
  const squares = values.reduce((total, one) => total + one * one, 0);
  return squares === 0 ? 1 : (sum * sum) / (values.length * squares);
}
