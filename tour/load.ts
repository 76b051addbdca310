/** Requests in the background, so that the console has something to show. */
export interface Load {
  /** Answers since the start, by status. */
  counts(): ReadonlyMap<number, number>;
  stop(): Promise<void>;
}

const REQUESTS_PER_SECOND = 20;
const ITEMS = 40;

/** Visitors without an account fetch items of the catalogue, at a steady rate. */
export function startLoad(request: (path: string) => Promise<{ readonly status: number }>): Load {
  const counts = new Map<number, number>();
  const inFlight = new Set<Promise<void>>();
  let sent = 0;
  const timer = setInterval(() => {
    const answered = request(`/items/${sent++ % ITEMS}`)
      .then(({ status }) => void counts.set(status, (counts.get(status) ?? 0) + 1))
      .catch(() => {}) // Envoy is stopping
      .finally(() => inFlight.delete(answered));
    inFlight.add(answered);
  }, 1_000 / REQUESTS_PER_SECOND);
  return {
    counts: () => counts,
    stop: async () => {
      clearInterval(timer);
      await Promise.all(inFlight);
    },
  };
}
