import { inWords, readFigures, timesLess } from '../docs/figures.ts';

/** The head of the first page, above docs/README.md. Its figures come from docs/results. */
export function home(): object {
  const { evenly, full, faults, calls, atRest } = readFigures();
  return {
    layout: 'home',
    hero: {
      name: 'Weir',
      text: 'A rate limit service for Envoy',
      tagline:
        'A drop-in replacement for envoyproxy/ratelimit that shows why it refuses, and what a change would refuse.',
      actions: [
        { theme: 'brand', text: 'Get started', link: '/get-started' },
        { theme: 'alt', text: 'Move from envoyproxy/ratelimit', link: '/migrating-from-envoyproxy-ratelimit' },
      ],
    },
    features: [
      {
        title: `${timesLess(evenly.slow)} to ${timesLess(full.sum)} times less CPU`,
        details: `A decision takes ${evenly.slow.weir} µs of CPU time, Redis included, instead of ${evenly.slow.reference} µs at 2,000 calls a second, and ${full.sum.weir} µs instead of ${full.sum.reference} µs at full load.`,
        link: '/results/bench',
        linkText: 'npm run bench',
      },
      {
        title: 'Bounds that hold in failures',
        details: `${faults} injected faults in ${inWords(calls)} calls: no limit was exceeded by more than its documented bound.`,
        link: '/results/chaos',
        linkText: 'npm run proof -- chaos',
      },
      {
        title: 'It says why',
        details: 'One command shows the rule, the line and the sum that refused a request, or why nothing was limited.',
        link: '/why-refused',
        linkText: 'weir explain',
      },
      {
        title: 'Changes without surprises',
        details: 'Replay recorded traffic or an access log against new rules, and see which clients they would hit.',
        link: '/change-a-limit',
        linkText: 'weir replay',
      },
      {
        title: 'Seven algorithms',
        details:
          'Windows, buckets, requests in flight over all proxies, and LLM tokens that are known only at the end.',
        link: '/algorithms',
        linkText: 'With plots',
      },
      {
        title: 'Nothing else to run',
        details: `One service without dependencies, up in ${atRest.startMs.weir} ms with ${atRest.memoryMib.weir} MiB. Add Redis when there are two.`,
        link: '/results/bench#at-rest',
        linkText: 'npm run proof -- rest',
      },
    ],
  };
}
