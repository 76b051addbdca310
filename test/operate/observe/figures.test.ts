import { addFigures, addSites, keptFigures, readFigures } from '../../../src/operate/observe/figures.ts';
import { noPeerCounts, type SitesReport } from '../../../src/operate/observe/site-counts.ts';

test('figures of two processes are summed, except the lateness, which is that of the later one', () => {
  const one = { ...readFigures(), inFlight: 2, latenessMs: 30, userSeconds: 1, quotaReports: 4 };
  const other = { ...readFigures(), inFlight: 3, latenessMs: 20, userSeconds: 2, commitsSent: 5 };
  expect(addFigures(one, other)).toMatchObject({
    ...{ inFlight: 5, latenessMs: 30, userSeconds: 3, quotaReports: 4, commitsSent: 5, cacheSize: undefined },
  });
});

test('keeps only the counters of a process that has ended', () => {
  const kept = keptFigures({ ...readFigures(), inFlight: 2, userSeconds: 1, cacheHits: 3, cacheSize: 4 });
  expect(kept).toMatchObject({ userSeconds: 1, cacheHits: 3 });
  expect(Object.keys(kept).sort()).toEqual(['cacheHits', 'systemSeconds', 'userSeconds']);
});

test('exchanges with other sites are added up, and of times the newest is used', () => {
  const peer = { site: 'west', ...noPeerCounts() };
  const one: SitesReport = {
    peers: [{ ...peer, exchanges: 2, borrowed: 7, asked: 4, roundTripMs: 30, silentMs: 500, askedMsAgo: -1 }],
    ...{ errorRatio: 0.01, errorBound: 0.05 },
  };
  const other: SitesReport = {
    peers: [{ ...peer, exchanges: 1, failing: 2, problem: 'cut off', silentMs: -1, askedMsAgo: 900 }],
    ...{ errorRatio: 0.02, errorBound: 0 },
  };
  expect(addSites(one, other)).toEqual({
    peers: [
      {
        ...{ ...peer, exchanges: 3, failing: 2, borrowed: 7, asked: 4 },
        ...{ roundTripMs: 30, silentMs: 500, askedMsAgo: 900, problem: 'cut off' },
      },
    ],
    ...{ errorRatio: 0.02, errorBound: 0 }, // for one limit
  });
});
